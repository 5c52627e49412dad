#pragma once

#include "base/error.h"
#include "formats/tensor_source.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

namespace ingot::fuzz {

// Whatever a reader accepts must be whole: readable bytes, as many as shape and format ask for.
inline void check_tensors(const std::vector<SourceTensor>& tensors) {
  static volatile unsigned sink = 0;
  for (const SourceTensor& tensor : tensors) {
    if (!tensor.bytes.empty())
      sink = sink + std::to_integer<unsigned>(tensor.bytes.front()) +
             std::to_integer<unsigned>(tensor.bytes.back());
    if (!tensor.format) continue;
    const int rank = tensor.shape.rank();
    const std::int64_t k = rank > 0 ? tensor.shape[rank - 1] : 1;
    const std::int64_t elements = tensor.shape.elements();
    if (elements == 0 ? !tensor.bytes.empty()
                      : weight_bytes(*tensor.format, elements / k, k) != tensor.bytes.size())
      std::abort();
  }
}

// Runs a reader; the one way to refuse is Error{kBadInput}.
template <typename F>
int refuse_or_read(F&& read) {
  try {
    read();
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kBadInput) std::abort();
  }
  return 0;
}

}  // namespace ingot::fuzz
