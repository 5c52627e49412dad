#include "ir/attrs.h"

#include "base/check.h"
#include "base/error.h"

#include <algorithm>

namespace ingot {

namespace {

auto lower_bound(auto& entries, std::string_view name) {
  return std::lower_bound(
      entries.begin(), entries.end(), name,
      [](const auto& entry, std::string_view wanted) { return entry.first < wanted; });
}

}  // namespace

void Attrs::set(std::string_view name, AttrValue value) {
  const auto it = lower_bound(entries_, name);
  if (it != entries_.end() && it->first == name)
    it->second = std::move(value);
  else
    entries_.emplace(it, std::string(name), std::move(value));
}

const AttrValue* Attrs::find(std::string_view name) const {
  const auto it = lower_bound(entries_, name);
  return it != entries_.end() && it->first == name ? &it->second : nullptr;
}

void attribute_missing(std::string_view name) {
  fail(ErrorCode::kBug, "[ir.attrs] attribute '{}' is absent or of another type", name);
}

}  // namespace ingot
