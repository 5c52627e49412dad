#include "base/error.h"
#include "base/file.h"
#include "builder/checkpoint.h"
#include "builder/checkpoint_files.h"
#include "builder/hf_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ingot {

namespace {

// Distinct rows are few: enough that no kernel sees a pattern, and quick to make for billions of
// weights.
constexpr std::int64_t kDistinctRows = 509;

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 1) {}
  float normal() {
    float sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<float>(next() >> 40) * 0x1.0p-24f;
    return (sum - 2.0f) * 1.7320508f;
  }

 private:
  std::uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 2685821657736338717ull;
  }
  std::uint64_t state_;
};

// Made when asked for; `bytes` views memory of this source.
class RandomSource : public TensorSource {
 public:
  RandomSource(const std::filesystem::path& path, const std::vector<SlotSpec>& slots,
               const WeightFormat& format)
      : TensorSource(path) {
    std::vector<SourceTensor> tensors;
    for (const SlotSpec& slot : slots) {
      if (slot.presence == Presence::kAsFound) continue;
      const bool matrix = slot.shape.rank() == 2;
      const WeightFormat& used = matrix ? format : weight_format("f32");
      memory_.push_back(make(slot, used));
      tensors.push_back({.name = slot.name,
                         .format = &used,
                         .dtype = std::string(used.name),
                         .shape = slot.shape,
                         .bytes = memory_.back(),
                         .file = path});
    }
    set_tensors(std::move(tensors));
  }

 private:
  // Norms are near one, matrices keep the scale of what goes through them, biases are small.
  static std::vector<std::byte> make(const SlotSpec& slot, const WeightFormat& format) {
    const bool matrix = slot.shape.rank() == 2;
    const bool norm = !matrix && !slot.name.ends_with(".bias");
    const std::int64_t k = matrix ? slot.shape[1] : slot.shape[0];
    const std::int64_t rows = matrix ? slot.shape[0] : 1;
    if (k % format.block != 0)
      fail(ErrorCode::kBadInput, "[random.{}] rows of {} values are not whole blocks of {}",
           slot.name, k, format.block);
    Random random(std::hash<std::string>{}(slot.name));
    const std::size_t row_bytes = format.row_bytes(k);
    std::vector<std::byte> bytes(weight_bytes(format, rows, k));
    std::vector<float> row(static_cast<std::size_t>(k));
    const float scale = matrix ? 1.0f / std::sqrt(static_cast<float>(k)) : 0.02f;
    for (std::int64_t r = 0; r < rows; ++r) {
      std::byte* at = bytes.data() + static_cast<std::size_t>(r) * row_bytes;
      if (r >= kDistinctRows) {
        std::memcpy(at, bytes.data() + static_cast<std::size_t>(r % kDistinctRows) * row_bytes,
                    row_bytes);
        continue;
      }
      for (float& x : row) x = (norm ? 1.0f : 0.0f) + scale * random.normal();
      format.quantize_row(row.data(), k, at);
    }
    return bytes;
  }

  std::vector<std::vector<std::byte>> memory_;
};

}  // namespace

Checkpoint random_checkpoint(const std::filesystem::path& config_json,
                             std::string_view format_name) {
  const WeightFormat& format = weight_format(format_name);
  if (!format.quantize_row)
    fail(ErrorCode::kUsage, "[random] {} is read but not written; choose another format",
         format_name);
  Checkpoint c;
  HfConfig config = HfConfig::from_file(config_json);
  read_hf_model(config, c);
  c.name = "random " + c.config.architecture;
  const std::vector<SlotSpec> slots = c.family->slots(c.config);
  c.source = std::make_unique<RandomSource>(config_json, slots, format);
  for (const SourceTensor& tensor : c.source->tensors()) c.slots[tensor.name] = &tensor;
  c.identity = checkpoint_identity(config_json) + " random " + std::string(format_name);
  return c;
}

}  // namespace ingot
