#include "text/utf8.h"

#include <cstring>

namespace ingot {
namespace {

struct LeadByte {
  int size;                 // of the whole sequence; 0: not a lead byte
  unsigned char low, high;  // allowed second byte
};

LeadByte lead_of(unsigned char byte) {
  if (byte < 0xc2) return {0, 0, 0};
  if (byte < 0xe0) return {2, 0x80, 0xbf};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};
  if (byte == 0xed) return {3, 0x80, 0x9f};
  if (byte < 0xf0) return {3, 0x80, 0xbf};
  if (byte == 0xf0) return {4, 0x90, 0xbf};
  if (byte < 0xf4) return {4, 0x80, 0xbf};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  return {0, 0, 0};
}

}  // namespace

Utf8Char decode_utf8_slow(const char* p, const char* end) {
  const auto first = static_cast<unsigned char>(*p);
  if (first < 0x80) return {first, 1, true};
  const LeadByte lead = lead_of(first);
  if (lead.size == 0) return {0xfffd, 1, false};
  char32_t code = first & (0xff >> (lead.size + 1));
  for (int i = 1; i < lead.size; ++i) {
    if (p + i >= end) return {0xfffd, i, false};
    const auto byte = static_cast<unsigned char>(p[i]);
    if (byte < (i == 1 ? lead.low : 0x80) || byte > (i == 1 ? lead.high : 0xbf))
      return {0xfffd, i, false};
    code = (code << 6) | (byte & 0x3f);
  }
  return {code, lead.size, true};
}

bool is_incomplete_utf8(const char* p, const char* end) {
  const LeadByte lead = lead_of(static_cast<unsigned char>(*p));
  const auto have = static_cast<int>(end - p);
  if (lead.size == 0 || have >= lead.size) return false;
  for (int i = 1; i < have; ++i) {
    const auto byte = static_cast<unsigned char>(p[i]);
    if (byte < (i == 1 ? lead.low : 0x80) || byte > (i == 1 ? lead.high : 0xbf)) return false;
  }
  return true;
}

void append_utf8(std::string& out, char32_t code) {
  if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) code = 0xfffd;
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out.push_back(static_cast<char>(0xc0 | (code >> 6)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3f)));
  } else if (code < 0x10000) {
    out.push_back(static_cast<char>(0xe0 | (code >> 12)));
    out.push_back(static_cast<char>(0x80 | ((code >> 6) & 0x3f)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3f)));
  } else {
    out.push_back(static_cast<char>(0xf0 | (code >> 18)));
    out.push_back(static_cast<char>(0x80 | ((code >> 12) & 0x3f)));
    out.push_back(static_cast<char>(0x80 | ((code >> 6) & 0x3f)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3f)));
  }
}

bool is_utf8(std::string_view text) {
  const char* p = text.data();
  const char* end = p + text.size();
  while (p < end) {
    if (end - p >= 8) {
      std::uint64_t word;
      std::memcpy(&word, p, 8);
      if ((word & 0x8080808080808080u) == 0) {
        p += 8;
        continue;
      }
    }
    const Utf8Char c = decode_utf8(p, end);
    if (!c.valid) return false;
    p += c.size;
  }
  return true;
}

std::string lossy_utf8(std::string_view bytes) {
  std::string out;
  LossyUtf8 lossy;
  lossy.push(bytes, out);
  lossy.finish(out);
  return out;
}

void LossyUtf8::push(std::string_view bytes, std::string& out) {
  std::string joined;
  if (count_ > 0) {
    joined.assign(held_, static_cast<std::size_t>(count_)).append(bytes);
    bytes = joined;
    count_ = 0;
  }
  const char* p = bytes.data();
  const char* end = p + bytes.size();
  while (p < end) {
    const char* run = p;  // ASCII goes over as it is
    while (p < end && (*p & 0x80) == 0) ++p;
    out.append(run, p);
    if (p == end) break;
    const Utf8Char c = decode_utf8(p, end);
    if (c.valid) {
      out.append(p, static_cast<std::size_t>(c.size));
    } else if (is_incomplete_utf8(p, end)) {
      count_ = static_cast<int>(end - p);
      std::memcpy(held_, p, static_cast<std::size_t>(count_));
      return;
    } else {
      append_utf8(out, 0xfffd);
    }
    p += c.size;
  }
}

void LossyUtf8::finish(std::string& out) {
  if (count_ > 0) append_utf8(out, 0xfffd);  // one maximal subpart
  count_ = 0;
}

}  // namespace ingot
