#include "base/hash.h"
#include "ops/ops.h"
#include "plan/engine_file.h"
#include "plan/engine_info.h"
#include "plan/plan.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/source_checks.h"
#include "tests/ops/reference_device.h"
#include "tests/runtime/small_step.h"
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

// Checksums keep a fuzzer out, not an attacker: input that is no engine becomes the tables of one
// with right checksums, the manifest in its first line and the blob table behind it.
std::string sealed(std::string_view input) {
  const std::size_t blobs = 64 << 10;
  const std::size_t line = std::min(input.find('\n'), input.size());
  std::string text(input);
  if (line < text.size()) text.erase(line, 1);
  std::string file = "INGOTENG";
  file.resize(blobs);
  const auto put = [&](std::size_t at, std::uint64_t value) {
    std::memcpy(file.data() + at, &value, sizeof value);
  };
  put(8, ingot::kEngineFormatVersion);
  put(16, blobs);
  put(24, line);
  put(32, text.size() - line);
  put(40, ingot::hash64(text));
  put(48, blobs + text.size());
  put(56, ingot::hash64(std::string_view(file).substr(0, 56)));
  return file + text;
}

// A plan that was believed stays inside its buffers: a step of it, by the references, which check
// what they are given. No weights are stored; zeros do.
void run(const ingot::Plan& plan) {
  const auto device = ingot::make_reference_device();
  const std::vector<std::byte> weights(std::min<std::uint64_t>(plan.weight_bytes(), 1 << 20));
  try {
    ingot::test::run_small_step(plan, *device, weights);
  } catch (const ingot::Error& e) {
    // Smaller limits than the step needs, or more memory than a test should take.
    if (e.code() != ingot::ErrorCode::kRequest && e.code() != ingot::ErrorCode::kDoesNotFit) throw;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string file = input.starts_with("INGOTENG") ? std::string(input) : sealed(input);
  static const int fd = memfd_create("engine", MFD_CLOEXEC);
  if (ftruncate(fd, 0) != 0 ||
      pwrite(fd, file.data(), file.size(), 0) != static_cast<ssize_t>(file.size()))
    std::abort();
  return ingot::fuzz::refuse_or_read([&] {
    const ingot::EngineFile engine("/proc/self/fd/" + std::to_string(fd));
    engine.verify_blobs();
    const ingot::Json& manifest = engine.manifest();
    if (!manifest.is_object() || !manifest.contains("info") || !manifest.contains("plan")) return;
    const ingot::EngineInfo info = ingot::engine_info_from_json(manifest.at("info"));
    const ingot::Plan plan = ingot::plan_from_json(manifest.at("plan"), ingot::all_ops());
    ingot::check_agreement(info, plan, ingot::all_ops());
    run(plan);
    // What was believed is written as it was read.
    if (ingot::to_json(plan) !=
        ingot::to_json(ingot::plan_from_json(ingot::to_json(plan), ingot::all_ops())))
      std::abort();
  });
}
