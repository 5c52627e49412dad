#include "ops/ops.h"

#include <gtest/gtest.h>

#include "tests/ops/op_driver.h"
#include "tests/ops/reference_device.h"
#include <set>

namespace ingot {
namespace {

std::string failures(const std::vector<OpOutcome>& outcomes) {
  std::string text;
  for (const OpOutcome& o : outcomes)
    if (!o.good()) text += to_string(o) + "\n";
  return text;
}

// The driver against the references themselves: every case must pass, in bf16 and f32.
TEST(OpDriver, EveryCasePassesOnTheReferenceDevice) {
  const auto device = make_reference_device();
  const std::vector<OpOutcome> outcomes = check_ops(*device, {});
  EXPECT_EQ(failures(outcomes), "");
  std::set<std::string> ops;
  for (const OpOutcome& o : outcomes) ops.insert(o.name.substr(0, o.name.find('/')));
  EXPECT_EQ(ops.size(), all_ops().size());
}

TEST(OpDriver, CasesWithStatesPassWithPagesOfAnySize) {
  for (const std::int64_t page_tokens : {16, 64})
    for (const char* name : {"attention", "kv_append", "rope_kv_append"})
      EXPECT_EQ(failures(check_ops(*make_reference_device(page_tokens), {.only_op = name})), "");
}

// A device that writes nothing fails every case.
TEST(OpDriver, NothingPassesOnTheNullDevice) {
  const auto device = make_null_device();
  for (const OpDef* op : all_ops()) {
    OpCheckOptions options{.modes = {ComputeMode::kNative}, .only_op = std::string(op->name)};
    if (op->name == "linear" || op->name == "embed") options.only_format = "bf16";
    for (const OpOutcome& o : check_ops(*device, options))
      EXPECT_EQ(o.status, OpStatus::kFailed) << to_string(o);
  }
}

TEST(OpDriver, SelectsByNameAndFormat) {
  const auto device = make_reference_device();
  const auto outcomes = check_ops(*device, {.modes = {ComputeMode::kF32},
                                            .only_op = "linear",
                                            .only_case = "odd",
                                            .only_format = "bf16"});
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].name, "linear/odd/bf16/f32");
  EXPECT_EQ(outcomes[0].kernel, "linear.reference");
}

}  // namespace
}  // namespace ingot
