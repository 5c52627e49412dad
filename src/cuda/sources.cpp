#include "cuda/sources.h"

#include "base/check.h"

#include <algorithm>
#include <array>
#include <string>

namespace ingot::cuda {
namespace {

constexpr DeviceSource kSources[] = {
#include "cuda_sources.inc"
};

// Names of the files that lines `#include "..."` of `text` name.
std::vector<std::string_view> includes_of(std::string_view text) {
  constexpr std::string_view kDirective = "#include \"";
  std::vector<std::string_view> names;
  for (std::size_t at = text.find(kDirective); at != std::string_view::npos;
       at = text.find(kDirective, at)) {
    at += kDirective.size();
    names.push_back(text.substr(at, text.find('"', at) - at));
  }
  return names;
}

}  // namespace

std::span<const DeviceSource> device_sources() {
  return kSources;
}

const DeviceSource* find_device_source(std::string_view name) {
  const auto* it = std::find_if(std::begin(kSources), std::end(kSources),
                                [&](const DeviceSource& s) { return s.name == name; });
  return it == std::end(kSources) ? nullptr : it;
}

std::vector<const DeviceSource*> source_closure(std::string_view name,
                                                std::span<const std::string> included) {
  std::vector<const DeviceSource*> closure;
  const auto add = [&](std::string_view file) {
    const DeviceSource* source = find_device_source(file);
    check(source != nullptr, "device code that is not in the binary: " + std::string(file));
    if (std::find(closure.begin(), closure.end(), source) == closure.end())
      closure.push_back(source);
  };
  add(name);
  for (const std::string& file : included) add(file);
  for (std::size_t i = 0; i < closure.size(); ++i)
    for (const std::string_view file : includes_of(closure[i]->text)) add(file);
  std::sort(closure.begin() + 1, closure.end(),
            [](const DeviceSource* a, const DeviceSource* b) { return a->name < b->name; });
  return closure;
}

}  // namespace ingot::cuda
