#include "base/error.h"
#include "ops/ops.h"

#include <algorithm>
#include <array>
#include <string>

namespace ingot {

// The folder is the list: every ops/<stem>.cpp defines `const OpDef kOp_<stem>`.
#define INGOT_STEM(stem) extern const OpDef kOp_##stem;
#include "ops_stems.inc"
#undef INGOT_STEM

namespace {

const std::array kOps = {
#define INGOT_STEM(stem) &kOp_##stem,
#include "ops_stems.inc"
#undef INGOT_STEM
};

}  // namespace

OpTable all_ops() {
  return kOps;
}

const OpDef& op(std::string_view name) {
  const auto it =
      std::find_if(kOps.begin(), kOps.end(), [&](const OpDef* o) { return o->name == name; });
  if (it != kOps.end()) return **it;
  std::string known;
  for (const OpDef* o : kOps) known += " " + std::string(o->name);
  fail(ErrorCode::kBadInput, "[ops] unknown op {}, known:{}", name, known);
}

}  // namespace ingot
