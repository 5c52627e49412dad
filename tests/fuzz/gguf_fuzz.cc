#include "formats/gguf.h"

#include "tests/fuzz/source_checks.h"
#include <cstdlib>

namespace {

// Every getter on every key: the right one reads, the others refuse.
void read_metadata(const ingot::GgufMetadata& metadata) {
  for (const auto& [key, value] : metadata.entries()) {
    const auto k = key;
    ingot::fuzz::refuse_or_read([&] { metadata.integer(k); });
    ingot::fuzz::refuse_or_read([&] { metadata.number(k); });
    ingot::fuzz::refuse_or_read([&] { metadata.boolean(k); });
    ingot::fuzz::refuse_or_read([&] { metadata.text(k); });
    ingot::fuzz::refuse_or_read([&] { metadata.integers(k); });
    ingot::fuzz::refuse_or_read([&] { metadata.floats(k); });
    ingot::fuzz::refuse_or_read([&] { metadata.booleans(k); });
    ingot::fuzz::refuse_or_read([&] { metadata.raw(k); });
    ingot::fuzz::refuse_or_read([&] {
      std::size_t total = 0;
      if (const auto texts = metadata.texts(k))
        for (const auto text : *texts) total += text.size();
      if (total > value.bytes.size()) std::abort();
    });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return ingot::fuzz::refuse_or_read([&] {
    const auto contents = ingot::parse_gguf(std::as_bytes(std::span(data, size)), "fuzz");
    ingot::fuzz::check_tensors(contents.tensors);
    read_metadata(contents.metadata);
  });
}
