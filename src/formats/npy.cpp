#include "formats/npy.h"

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "formats/byte_reader.h"

#include <charconv>
#include <string>
#include <string_view>

namespace ingot {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct Code {
  DType dtype;
  std::string_view text;
};
constexpr Code kCodes[] = {
    {DType::kF32, "<f4"}, {DType::kF16, "<f2"}, {DType::kI32, "<i4"}, {DType::kI64, "<i8"}};

// The value behind 'key': in the header, a Python dict literal with these three keys.
std::string_view value_of(std::string_view header, std::string_view key, std::string_view file) {
  const std::size_t at = header.find(key);
  if (at == std::string_view::npos)
    fail(ErrorCode::kBadInput, "[npy.header] {}: no {} in it", file, key);
  std::string_view rest = header.substr(at + key.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(": "), rest.size()));
  return rest;
}

Shape parse_shape(std::string_view text, std::string_view file) {
  std::vector<std::int64_t> dims;
  bool good = text.starts_with('(');
  if (good) text.remove_prefix(1);
  while (good && !text.starts_with(')')) {
    std::int64_t dim = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), dim);
    good = error == std::errc() && dim >= 0 && dims.size() < Shape::kMaxRank;
    if (!good) break;
    dims.push_back(dim);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    const std::size_t next = text.find_first_not_of(", ");
    good = next != std::string_view::npos && (next > 0 || text[0] == ')');
    if (good) text.remove_prefix(next);
  }
  if (!good) fail(ErrorCode::kBadInput, "[npy.header] {}: unreadable shape", file);
  return Shape(std::span<const std::int64_t>(dims));
}

}  // namespace

NpyArray parse_npy(std::span<const std::byte> bytes, const std::filesystem::path& file) {
  const std::string name = file.string();
  ByteReader reader(bytes, "npy", name);
  if (reader.text(kMagic.size(), "the magic") != kMagic)
    fail(ErrorCode::kBadInput, "[npy.header] {}: not a .npy file", name);
  const auto version = reader.number<std::uint8_t>("the version");
  reader.number<std::uint8_t>("the version");
  if (version != 1 && version != 2)
    fail(ErrorCode::kBadInput, "[npy.header] {}: version {}, known are 1 and 2", name, version);
  const std::uint32_t size = version == 1 ? reader.number<std::uint16_t>("the header's length")
                                          : reader.number<std::uint32_t>("the header's length");
  const std::string_view header = reader.text(size, "the header");
  NpyArray array;
  const std::string_view code = value_of(header, "'descr'", name);
  bool known = false;
  for (const Code& c : kCodes) {
    if (code.substr(0, 5) != "'" + std::string(c.text) + "'") continue;
    array.dtype = c.dtype;
    known = true;
  }
  if (!known)
    fail(ErrorCode::kBadInput, "[npy.dtype] {}: {} is not read, only <f4 <f2 <i4 <i8", name,
         code.substr(0, 8));
  if (!value_of(header, "'fortran_order'", name).starts_with("False"))
    fail(ErrorCode::kBadInput, "[npy.header] {}: only C order is read", name);
  array.shape = parse_shape(value_of(header, "'shape'", name), name);
  const auto elements = checked_product(array.shape.dims());
  std::int64_t wanted = 0;
  if (!elements || __builtin_mul_overflow(*elements, dtype_bytes(array.dtype), &wanted) ||
      static_cast<std::uint64_t>(wanted) != reader.remaining())
    fail(ErrorCode::kBadInput, "[npy.data] {}: {} {} does not match the {} bytes of data", name,
         dtype_name(array.dtype), to_string(array.shape), reader.remaining());
  const auto data = reader.take(reader.remaining(), "the data");
  array.bytes.assign(data.begin(), data.end());
  return array;
}

NpyArray read_npy(const std::filesystem::path& path) {
  return parse_npy(MappedFile(path).bytes(), path);
}

void write_npy(const std::filesystem::path& path, DType dtype, const Shape& shape,
               std::span<const std::byte> bytes) {
  std::string_view code;
  for (const Code& c : kCodes)
    if (c.dtype == dtype) code = c.text;
  check(!code.empty(), "a dtype that .npy files hold");
  check(static_cast<std::size_t>(shape.elements()) * dtype_bytes(dtype) == bytes.size(),
        "shape and bytes of an array agree");
  std::string dims;
  for (const std::int64_t d : shape.dims()) dims += (dims.empty() ? "" : ", ") + std::to_string(d);
  if (shape.rank() == 1) dims += ",";  // a tuple of one
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", code, dims);
  const std::size_t before = kMagic.size() + 4;
  header.append(63 - (before + header.size()) % 64, ' ');
  header += '\n';
  const char version_and_size[4] = {1, 0, static_cast<char>(header.size() & 0xff),
                                    static_cast<char>(header.size() >> 8)};
  AtomicFile file(path);
  file.write(kMagic);
  file.write(std::string_view(version_and_size, 4));
  file.write(header);
  file.write(bytes);
  file.commit();
}

}  // namespace ingot
