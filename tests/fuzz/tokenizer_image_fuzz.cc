#include "base/error.h"
#include "text/detokenizer.h"
#include "text/image.h"
#include "text/tokenizer.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

// A damaged image whose checksum is right: an error or a tokenizer that reads nothing outside it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> image(size);
  if (size != 0) std::memcpy(image.data(), data, size);
  if (size >= 32) {
    const std::uint64_t total = size;
    std::memcpy(image.data() + 16, &total, sizeof total);
    const std::uint64_t checksum = ingot::image_checksum(image);
    std::memcpy(image.data() + ingot::kImageChecksumOffset, &checksum, sizeof checksum);
  }
  try {
    const ingot::Tokenizer tokenizer = ingot::Tokenizer::open(image);
    const auto ids = tokenizer.encode("A b  c'll 12\n<s>\xff é 中 <tool> \xf0\x9f\x98\x80");
    ingot::TokenStream stream(tokenizer, {.skip_special = false});
    for (const auto id : ids) stream.push(id);
    for (int id = -1; id < 40; ++id) {
      stream.push(id);
      tokenizer.token_bytes(id);
    }
    stream.finish();
  } catch (const ingot::Error& error) {
    if (error.code() == ingot::ErrorCode::kBug) throw;
  }
  return 0;
}
