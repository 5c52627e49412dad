#include "formats/safetensors.h"

#include "base/error.h"
#include "base/file.h"
#include "formats/safetensors_header.h"
#include "formats/shards.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>

namespace ingot {

namespace {

namespace fs = std::filesystem;
using safetensors::Entry;

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // as the reference reader

struct StoredType {
  std::string_view name;
  int bits;
  std::string_view format;  // of quant/; empty where Ingot does not compute with it directly
};

constexpr std::array<StoredType, 22> kTypes = {{
    {"F32", 32, "f32"},     {"F16", 16, "f16"},     {"BF16", 16, "bf16"}, {"F64", 64, ""},
    {"BOOL", 8, ""},        {"U8", 8, ""},          {"I8", 8, ""},        {"U16", 16, ""},
    {"I16", 16, ""},        {"U32", 32, ""},        {"I32", 32, ""},      {"U64", 64, ""},
    {"I64", 64, ""},        {"F8_E4M3", 8, ""},     {"F8_E5M2", 8, ""},   {"F8_E8M0", 8, ""},
    {"F8_E4M3FNUZ", 8, ""}, {"F8_E5M2FNUZ", 8, ""}, {"F6_E2M3", 6, ""},   {"F6_E3M2", 6, ""},
    {"F4", 4, ""},          {"C64", 64, ""},
}};

const StoredType& stored_type(const Entry& entry, const fs::path& file) {
  const auto it = std::find_if(kTypes.begin(), kTypes.end(),
                               [&](const StoredType& t) { return t.name == entry.dtype; });
  if (it == kTypes.end())
    fail(ErrorCode::kBadInput, "[safetensors.dtype] {}: tensor {} has the unknown dtype '{}'",
         file.string(), entry.name, entry.dtype);
  return *it;
}

// Bytes that shape and dtype ask for; nothing when that is no whole, addressable number.
std::optional<std::uint64_t> wanted_bytes(const Entry& entry, const StoredType& type) {
  const auto elements = checked_product(entry.shape);
  std::uint64_t bits = 0;
  if (!elements || __builtin_mul_overflow(static_cast<std::uint64_t>(*elements),
                                          static_cast<std::uint64_t>(type.bits), &bits))
    return std::nullopt;
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

std::string list(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t d : shape) text += (text.size() > 1 ? "," : "") + std::to_string(d);
  return text + "]";
}

void check_entry(const Entry& entry, std::uint64_t data_bytes, const fs::path& file) {
  if (entry.begin > entry.end)
    fail(ErrorCode::kBadInput,
         "[safetensors.offsets] {}: tensor {} ends at {} before it starts at {}", file.string(),
         entry.name, entry.end, entry.begin);
  const auto wanted = wanted_bytes(entry, stored_type(entry, file));
  if (wanted != entry.end - entry.begin)
    fail(ErrorCode::kBadInput, "[safetensors.shape] {}: tensor {} {} {} needs {} bytes, has {}",
         file.string(), entry.name, entry.dtype, list(entry.shape),
         wanted ? std::to_string(*wanted) : "an impossible number of", entry.end - entry.begin);
  if (entry.end > data_bytes)
    fail(ErrorCode::kBadInput,
         "[safetensors.truncated] {}: tensor {} ends at byte {} of the data, the file holds {}; "
         "download it again",
         file.string(), entry.name, entry.end, data_bytes);
}

// The ranges must tile the data: anything else means that the header and the data do not belong
// together.
void check_tiling(const std::vector<Entry>& entries, std::uint64_t data_bytes,
                  const fs::path& file) {
  std::vector<const Entry*> order;
  order.reserve(entries.size());
  for (const Entry& entry : entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::uint64_t at = 0;
  std::string_view before = "the header";
  for (const Entry* entry : order) {
    if (entry->begin != at)
      fail(ErrorCode::kBadInput,
           "[safetensors.offsets] {}: tensor {} starts at {}, {} ended at {}: {}", file.string(),
           entry->name, entry->begin, before, at,
           entry->begin < at ? "they overlap" : "there is a hole between them");
    at = entry->end;
    before = entry->name;
  }
  if (at != data_bytes)
    fail(ErrorCode::kBadInput, "[safetensors.offsets] {}: {} bytes follow the last tensor ({})",
         file.string(), data_bytes - at, before);
}

// Ranks beyond what Shape holds (video patch embeddings) are carried flat and cannot be used.
SourceTensor to_tensor(Entry& entry, std::span<const std::byte> data, const fs::path& file) {
  SourceTensor tensor;
  tensor.bytes = data.subspan(entry.begin, entry.end - entry.begin);
  tensor.file = file;
  tensor.dtype = entry.dtype;
  if (entry.shape.size() <= Shape::kMaxRank) {
    const std::string_view format = stored_type(entry, file).format;
    if (!format.empty()) tensor.format = find_weight_format(format);
    tensor.shape = Shape(std::span<const std::int64_t>(entry.shape));
  } else {
    tensor.dtype += " of shape " + list(entry.shape) + ", flat";
    tensor.shape = Shape{*checked_product(entry.shape)};
  }
  tensor.name = std::move(entry.name);
  return tensor;
}

}  // namespace

std::vector<SourceTensor> parse_safetensors(std::span<const std::byte> bytes,
                                            const fs::path& file) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("version https://git-lfs"))
    fail(ErrorCode::kBadInput,
         "[safetensors.header] {}: a Git LFS pointer, not the weights; run "
         "`git lfs pull`",
         file.string());
  std::uint64_t header_bytes = 0;
  if (bytes.size() < sizeof header_bytes)
    fail(ErrorCode::kBadInput, "[safetensors.truncated] {}: {} bytes are no safetensors file",
         file.string(), bytes.size());
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  if (header_bytes > kMaxHeaderBytes)
    fail(ErrorCode::kBadInput, "[safetensors.header] {}: a header of {} bytes, at most {} are read",
         file.string(), header_bytes, kMaxHeaderBytes);
  if (header_bytes > bytes.size() - sizeof header_bytes)
    fail(ErrorCode::kBadInput,
         "[safetensors.truncated] {}: a header of {} bytes, the file holds {}; download it again",
         file.string(), header_bytes, bytes.size() - sizeof header_bytes);
  std::vector<Entry> entries =
      safetensors::parse_header(text.substr(sizeof header_bytes, header_bytes), file.string());
  const auto data = bytes.subspan(sizeof header_bytes + header_bytes);
  for (const Entry& entry : entries) check_entry(entry, data.size(), file);
  check_tiling(entries, data.size(), file);
  std::vector<SourceTensor> tensors;
  tensors.reserve(entries.size());
  for (Entry& entry : entries) tensors.push_back(to_tensor(entry, data, file));
  return tensors;
}

namespace {

constexpr ShardNames kNames = {"model.safetensors", "model.safetensors.index.json"};

class SafetensorsSource : public TensorSource {
 public:
  explicit SafetensorsSource(const fs::path& file) : TensorSource(file), file_(file) {
    set_tensors(parse_safetensors(file_.bytes(), file));
  }

 private:
  MappedFile file_;
};

std::unique_ptr<TensorSource> open_file(const fs::path& file) {
  return std::make_unique<SafetensorsSource>(file);
}

}  // namespace

std::vector<fs::path> safetensors_files(const fs::path& folder) {
  return shard_files(folder, kNames);
}

std::unique_ptr<TensorSource> open_safetensors(const fs::path& path) {
  fs::path file = path;
  if (fs::is_directory(path)) {
    file = path / kNames.whole;
    if (!fs::exists(file)) file = path / kNames.index;
    if (!fs::exists(file))
      fail(ErrorCode::kBadInput, "[safetensors.open] {}: neither {} nor {}", path.string(),
           kNames.whole, kNames.index);
  }
  return file.extension() == ".json" ? open_shards(file, open_file) : open_file(file);
}

}  // namespace ingot
