#include "base/error.h"
#include "models/family.h"

#include <algorithm>
#include <array>
#include <string>

namespace ingot {

// The folder is the list: every models/<stem>.cpp defines `const Family kFamily_<stem>`.
#define INGOT_STEM(stem) extern const Family kFamily_##stem;
#include "models_stems.inc"
#undef INGOT_STEM

namespace {

const std::array kFamilies = {
#define INGOT_STEM(stem) &kFamily_##stem,
#include "models_stems.inc"
#undef INGOT_STEM
};

template <typename Member>
const Family& find(std::string_view architecture, Member member, std::string_view what) {
  std::string known;
  for (const Family* family : kFamilies) {
    for (const std::string_view name : family->*member) {
      if (name == architecture) return *family;
      known += " " + std::string(name);
    }
  }
  fail(ErrorCode::kBadInput, "[models] {} {} is not supported; known:{}", what, architecture,
       known);
}

}  // namespace

std::int32_t token_id(const HfConfig& config, std::string_view key, std::int64_t id) {
  if (id < -1 || id > INT32_MAX) config.refuse(key, fmt::format("{} is no token id", id));
  return static_cast<std::int32_t>(id);
}

std::span<const Family* const> all_families() {
  return kFamilies;
}

const Family& family_for_architecture(std::string_view architecture) {
  return find(architecture, &Family::architectures, "architecture");
}

const Family& family_for_gguf(std::string_view architecture) {
  return find(architecture, &Family::gguf_architectures, "GGUF architecture");
}

const Family& family_for_meta() {
  for (const Family* family : kFamilies)
    if (family->meta) return *family;
  fail(ErrorCode::kBug, "[models] no family answers for Meta folders");
}

}  // namespace ingot
