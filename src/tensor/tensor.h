#pragma once

#include "tensor/dtype.h"
#include "tensor/shape.h"

#include <cstddef>

namespace ingot {

// A typed, shaped view of contiguous memory that it does not own. The memory may be a device's.
struct Tensor {
  DType dtype = DType::kF32;
  Shape shape;
  void* data = nullptr;

  std::size_t bytes() const {
    return static_cast<std::size_t>(shape.elements()) * dtype_bytes(dtype);
  }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

}  // namespace ingot
