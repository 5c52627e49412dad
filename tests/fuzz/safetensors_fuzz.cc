#include "formats/safetensors.h"

#include "tests/fuzz/source_checks.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return ingot::fuzz::refuse_or_read([&] {
    ingot::fuzz::check_tensors(
        ingot::parse_safetensors(std::as_bytes(std::span(data, size)), "fuzz"));
  });
}
