#include "text/decoder_stages.h"

#include "text/utf8.h"

#include <utility>

namespace ingot {

ReplaceStage::ReplaceStage(std::string what, std::string with)
    : what_(std::move(what)), with_(std::move(with)), failure_(what_.size() + 1, 0) {
  for (std::size_t i = 1, k = 0; i < what_.size(); ++i) {
    while (k > 0 && what_[i] != what_[k]) k = failure_[k];
    if (what_[i] == what_[k]) ++k;
    failure_[i + 1] = k;
  }
}

void ReplaceStage::put(char c) {
  while (matched_ > 0 && what_[matched_] != c) {
    const std::size_t keep = failure_[matched_];
    out_.append(what_, 0, matched_ - keep);
    matched_ = keep;
  }
  if (what_[matched_] != c) {
    out_ += c;
  } else if (++matched_ == what_.size()) {
    out_ += with_;
    matched_ = 0;
  }
}

void ReplaceStage::fragment(std::string_view text) {
  for (const char c : text) put(c);
  // Held bytes that end within a character are followed by the rest of it, so that pieces stay
  // whole characters only if what_ is; it is text, hence only its own characters may be cut.
  if (!out_.empty()) next_->fragment(std::exchange(out_, {}));
}

void ReplaceStage::end_token() {
  out_.append(what_, 0, matched_);
  matched_ = 0;
  next_->fragment(std::exchange(out_, {}));
  next_->end_token();
}

StripStage::StripStage(std::string content, int start, int stop)
    : content_(std::move(content)), start_(start), stop_(stop) {}

void StripStage::put(std::string_view character) {
  const bool same = character == content_;
  if (same && leading_ && removed_ < start_) {
    ++removed_;
    return;
  }
  leading_ = false;
  if (!same) {
    for (; held_ > 0; --held_) out_ += content_;
    out_ += character;
  } else if (held_ < stop_) {
    ++held_;
  } else {
    out_ += content_;
  }
}

void StripStage::fragment(std::string_view text) {
  const char* p = text.data();
  const char* end = p + text.size();
  while (p < end) {
    const auto size = static_cast<std::size_t>(decode_utf8(p, end).size);
    put({p, size});
    p += size;
  }
  if (!out_.empty()) next_->fragment(std::exchange(out_, {}));
}

void StripStage::end_token() {
  held_ = 0;
  leading_ = true;
  removed_ = 0;
  next_->end_token();
}

}  // namespace ingot
