#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace ingot::test {

// A short list of `actions` that still fails: halves, quarters and so on are left out as long as
// `fails` says so of the rest (delta debugging, Zeller and Hildebrandt, 2002).
template <typename Action>
std::vector<Action> shrink(std::vector<Action> actions,
                           const std::function<bool(const std::vector<Action>&)>& fails) {
  for (std::size_t part = actions.size() / 2; part > 0; part /= 2) {
    for (std::size_t at = 0; at + part <= actions.size();) {
      std::vector<Action> fewer = actions;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(at),
                  fewer.begin() + static_cast<std::ptrdiff_t>(at + part));
      if (fails(fewer)) {
        actions = std::move(fewer);
      } else {
        at += part;
      }
    }
  }
  return actions;
}

}  // namespace ingot::test
