#include "builder/checkpoint.h"

#include "base/error.h"
#include "base/file.h"
#include "builder/checkpoint_files.h"
#include "builder/checkpoint_text.h"
#include "builder/hf_model.h"
#include "formats/gguf.h"
#include "formats/hf_config.h"
#include "formats/safetensors.h"
#include "formats/torch_pth.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace ingot {

namespace fs = std::filesystem;

namespace {

// "model.layers.7.x" against "model.layers.{L}.x": the slot with the number put in, or nothing.
std::optional<std::string> match(const NameRule& rule, std::string_view name) {
  const auto hole = rule.source.find("{L}");
  if (hole == std::string_view::npos) {
    if (name != rule.source) return std::nullopt;
    return std::string(rule.slot);
  }
  const std::string_view before = rule.source.substr(0, hole);
  const std::string_view after = rule.source.substr(hole + 3);
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) ||
      !name.ends_with(after))
    return std::nullopt;
  const std::string_view number =
      name.substr(before.size(), name.size() - before.size() - after.size());
  int layer = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), layer);
  // "07" is another name than "7".
  if (error != std::errc() || end != number.data() + number.size() ||
      std::to_string(layer) != number)
    return std::nullopt;
  std::string slot(rule.slot);
  if (const auto at = slot.find("{L}"); at != std::string::npos) slot.replace(at, 3, number);
  return slot;
}

// Buffers that frameworks save beside the weights: nothing to compute with.
bool is_harmless(const SourceTensor& t) {
  return t.shape.elements() == 0 || t.shape.rank() == 0 || t.dtype == "BOOL" || t.dtype == "bool";
}

void match_tensors(Checkpoint& c, Dialect dialect) {
  const std::vector<SlotSpec> specs = c.family->slots(c.config);
  std::map<std::string, const SlotSpec*, std::less<>> wanted;
  for (const SlotSpec& spec : specs) wanted[spec.name] = &spec;
  for (const SourceTensor& tensor : c.source->tensors()) {
    std::optional<std::string> slot;
    for (const NameRule& rule : c.family->names(dialect)) {
      slot = match(rule, tensor.name);
      if (slot) break;
    }
    if (slot && slot->empty()) continue;
    if (slot && *slot == "rope.divisors") {
      c.slots[*slot] = &tensor;
      continue;
    }
    if (slot && *slot == "head" && wanted.find("head") == wanted.end()) {
      c.notices.push_back(fmt::format(
          "{} is not used: the configuration ties the head to the embedding", tensor.name));
      continue;
    }
    const auto spec = slot ? wanted.find(*slot) : wanted.end();
    if (spec == wanted.end()) {
      if (!is_harmless(tensor))
        fail(ErrorCode::kBadInput,
             "[checkpoint.tensor] {}: {} {} has no place in a {} model of {} layers",
             tensor.file.string(), tensor.name, to_string(tensor.shape), c.family->name,
             c.config.layers);
      c.notices.push_back(fmt::format("{} {} is not used", tensor.name, to_string(tensor.shape)));
      continue;
    }
    require_format(tensor);
    if (tensor.shape != spec->second->shape)
      fail(ErrorCode::kBadInput,
           "[checkpoint.tensor] {}: {} is {}, wanted {} from the configuration",
           tensor.file.string(), tensor.name, to_string(tensor.shape),
           to_string(spec->second->shape));
    if (!c.slots.emplace(*slot, &tensor).second)
      fail(ErrorCode::kBadInput, "[checkpoint.tensor] {}: {} fills {}, which {} fills already",
           tensor.file.string(), tensor.name, *slot, c.slots[*slot]->name);
  }
  for (const SlotSpec& spec : specs) {
    if (spec.presence != Presence::kRequired || c.slots.find(spec.name) != c.slots.end()) continue;
    std::string source = spec.name;
    for (const NameRule& rule : c.family->names(dialect))
      if (const auto name = match({.source = rule.slot, .slot = rule.source}, spec.name))
        source = *name;
    fail(ErrorCode::kBadInput, "[checkpoint.tensor] {}: {} {} is missing{}",
         c.source->path().string(), source, to_string(spec.shape),
         spec.name == "head"
             ? " and the configuration does not tie it to the embedding (tie_word_embeddings)"
             : "");
  }
}

std::vector<double> floats_of(const SourceTensor& tensor) {
  const WeightFormat& format = require_format(tensor);
  std::vector<std::byte> scratch;
  const auto bytes = contiguous_bytes(tensor, scratch);
  std::vector<float> values(static_cast<std::size_t>(tensor.shape.elements()));
  format.dequantize_row(bytes.data(), tensor.shape.elements(), values.data());
  return {values.begin(), values.end()};
}

Checkpoint open_gguf_checkpoint(const fs::path& path) {
  Checkpoint c;
  auto source = open_gguf(path);
  const GgufMetadata& metadata = source->metadata();
  c.family = &family_for_gguf(metadata.require_text("general.architecture"));
  c.config = c.family->from_gguf(metadata);
  if (c.config.vocab == 0) c.config.vocab = source->require("token_embd.weight").shape[0];
  c.name = std::string(metadata.text("general.name").value_or(path.stem().string()));
  read_gguf_text(metadata, c);
  c.source = std::move(source);
  match_tensors(c, Dialect::kGguf);
  if (const auto it = c.slots.find("rope.divisors"); it != c.slots.end()) {
    c.config.rope.divisors = floats_of(*it->second);
    c.slots.erase(it);
  }
  return c;
}

Checkpoint open_hf_checkpoint(const fs::path& path) {
  Checkpoint c;
  HfConfig config = HfConfig::from_file(path / "config.json");
  read_hf_model(config, c);
  c.name = fs::absolute(path).lexically_normal().filename().string();
  if (c.name.empty())
    c.name = fs::absolute(path).lexically_normal().parent_path().filename().string();
  read_folder_text(path, c);
  c.source = has_torch_weights_only(path) ? open_torch_folder(path) : open_safetensors(path);
  match_tensors(c, Dialect::kHuggingFace);
  return c;
}

// Model-parallel shards split projections by rows or by columns. The embedding was split by columns
// up to Llama 2 and by rows since; its rows tell which, since all shards together make the
// vocabulary or each one does.
int meta_axis(const SourceTensor& tensor, std::int64_t shards, std::int64_t vocab) {
  const std::string& name = tensor.name;
  if (name == "tok_embeddings.weight") return tensor.shape[0] * shards == vocab ? 0 : 1;
  for (const char* rows :
       {"wq.weight", "wk.weight", "wv.weight", "w1.weight", "w3.weight", "output.weight"})
    if (name.ends_with(rows)) return 0;
  for (const char* columns : {"wo.weight", "w2.weight"})
    if (name.ends_with(columns)) return 1;
  return -1;
}

std::unique_ptr<TensorSource> open_meta_shards(const fs::path& folder, std::int64_t vocab) {
  const std::vector<fs::path> files = meta_shards(folder);
  if (files.empty())
    fail(ErrorCode::kBadInput, "[checkpoint] {}: params.json is there, consolidated.*.pth is not",
         folder.string());
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string wanted = fmt::format("consolidated.{:02}.pth", i);
    if (files[i].filename() != wanted)
      fail(ErrorCode::kBadInput, "[checkpoint] {}: {} is missing", folder.string(), wanted);
  }
  if (files.size() == 1) return open_torch_pth(files[0]);
  std::vector<std::unique_ptr<TensorSource>> shards;
  for (const fs::path& file : files) shards.push_back(open_torch_pth(file));
  const auto count = static_cast<std::int64_t>(files.size());
  // Where params.json leaves the vocabulary open (-1), the head tells: it is always split by rows.
  if (vocab <= 0) vocab = shards[0]->require("output.weight").shape[0] * count;
  return std::make_unique<ShardedSource>(
      std::move(shards), [=](const SourceTensor& t) { return meta_axis(t, count, vocab); });
}

Checkpoint open_meta_checkpoint(const fs::path& path) {
  Checkpoint c;
  const HfConfig params = HfConfig::from_file(path / "params.json");
  c.family = &family_for_meta();
  c.source = open_meta_shards(path, params.find_integer("vocab_size").value_or(-1));
  c.config = c.family->from_meta(params, *c.source);
  c.name = fs::absolute(path).lexically_normal().filename().string();
  read_folder_text(path, c);
  match_tensors(c, Dialect::kMeta);
  return c;
}

// The union of what every place declares, less what the model cannot say (-1 stands for none).
void settle_end_ids(Checkpoint& c) {
  const auto is_outside = [&](std::int32_t id) { return id < 0 || id >= c.config.vocab; };
  c.end_ids.insert(c.end_ids.end(), c.config.eos_ids.begin(), c.config.eos_ids.end());
  std::sort(c.end_ids.begin(), c.end_ids.end());
  c.end_ids.erase(std::unique(c.end_ids.begin(), c.end_ids.end()), c.end_ids.end());
  for (const std::int32_t id : c.end_ids)
    if (id >= c.config.vocab)
      c.notices.push_back(
          fmt::format("end token {} is not used: the vocabulary is {}", id, c.config.vocab));
  std::erase_if(c.end_ids, is_outside);
  std::erase_if(c.config.eos_ids, is_outside);
  if (c.config.bos_id && is_outside(*c.config.bos_id)) c.config.bos_id.reset();
}

}  // namespace

CheckpointKind checkpoint_kind(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error))
    fail(ErrorCode::kSystem, "[checkpoint] {}: no such file or folder", path.string());
  if (fs::is_directory(path, error)) {
    if (fs::exists(path / "config.json", error)) return CheckpointKind::kHuggingFace;
    if (fs::exists(path / "params.json", error)) return CheckpointKind::kMeta;
    fail(ErrorCode::kBadInput,
         "[checkpoint] {}: neither config.json (Hugging Face) nor params.json (Meta) is in this "
         "folder",
         path.string());
  }
  if (path.extension() == ".gguf") return CheckpointKind::kGguf;
  if (MappedFile(path).text().substr(0, 4) == "GGUF") return CheckpointKind::kGguf;
  fail(ErrorCode::kBadInput, "[checkpoint] {}: neither a GGUF file nor a folder with a model",
       path.string());
}

Checkpoint open_checkpoint(const fs::path& path) {
  const CheckpointKind kind = checkpoint_kind(path);
  Checkpoint c = kind == CheckpointKind::kGguf          ? open_gguf_checkpoint(path)
                 : kind == CheckpointKind::kHuggingFace ? open_hf_checkpoint(path)
                                                        : open_meta_checkpoint(path);
  c.config.family = c.family->name;
  c.identity = checkpoint_identity(path);
  settle_end_ids(c);
  return c;
}

}  // namespace ingot
