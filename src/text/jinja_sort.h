#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace ingot::jinja {

// The order of `count` elements by less(i, j), stable. A merge sort of our own: the comparison may
// throw, and values from templates (NaN) need not be ordered consistently, which std::sort does not
// forgive.
template <typename Less>
std::vector<std::size_t> stable_order(std::size_t count, const Less& less) {
  std::vector<std::size_t> order(count);
  std::vector<std::size_t> merged(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t width = 1; width < count; width *= 2) {
    for (std::size_t begin = 0; begin < count; begin += 2 * width) {
      const std::size_t middle = std::min(begin + width, count);
      const std::size_t end = std::min(begin + 2 * width, count);
      std::size_t left = begin;
      std::size_t right = middle;
      for (std::size_t out = begin; out < end; ++out) {
        const bool take_right = left == middle || (right < end && less(order[right], order[left]));
        merged[out] = take_right ? order[right++] : order[left++];
      }
    }
    std::swap(order, merged);
  }
  return order;
}

}  // namespace ingot::jinja
