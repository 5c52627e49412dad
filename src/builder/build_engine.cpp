#include "builder/build_engine.h"

#include "base/check.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/version.h"
#include "builder/weight_rows.h"
#include "quant/weight_format.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace ingot {

namespace {

constexpr std::int64_t kDefaultMaxSeq = 8192;

// Matrices keep the file's format, or take `quant` where the file holds plain numbers. Vectors are
// f32: they are small, and norms and biases are computed in f32.
const WeightFormat& format_for(const SourceTensor& tensor, const BuildOptions& options) {
  if (tensor.shape.rank() < 2) return weight_format("f32");
  const WeightFormat& from = require_format(tensor);
  if (options.quant == "none" || !from.exact_dtype) return from;
  const WeightFormat& to = weight_format(options.quant);
  if (tensor.shape[1] % to.block != 0)
    fail(ErrorCode::kBadInput,
         "[quant.{}] {} {}: rows of {} values are not whole blocks of {}; choose another --quant",
         to.name, tensor.name, to_string(tensor.shape), tensor.shape[1], to.block);
  return to;
}

nn::SlotTypes slot_types(const Checkpoint& c, const BuildOptions& options) {
  nn::SlotTypes types;
  for (const auto& [slot, tensor] : c.slots) {
    ValueType type{.dtype = DType::kF32};
    for (const std::int64_t d : tensor->shape.dims()) type.dims.emplace_back(d);
    type.format = &format_for(*tensor, options);
    types.emplace(slot, std::move(type));
  }
  return types;
}

ValueType table_type(const RopeTables& tables) {
  ValueType type{.dtype = DType::kF32};
  type.dims = {static_cast<std::int64_t>(tables.rows.size()),
               static_cast<std::int64_t>(tables.rows[0].size())};
  type.format = &weight_format("f32");
  return type;
}

RopeTables tables_of(const Checkpoint& c, std::int64_t max_seq) {
  return rope_tables(c.config.rope, c.config.max_position, max_seq);
}

std::int64_t resolved_max_seq(const Checkpoint& c, const BuildOptions& options) {
  if (options.max_seq == 0) return std::min(c.config.max_position, kDefaultMaxSeq);
  const bool stretches = c.config.rope.scaling == RopeScaling::kDynamic;
  if (options.max_seq > c.config.max_position && !stretches)
    fail(ErrorCode::kUsage,
         "[build.max_seq] {} tokens; {} was trained for {} (max_position_embeddings)",
         options.max_seq, c.name, c.config.max_position);
  return options.max_seq;
}

EngineInfo describe_model(const Checkpoint& c, const BuildOptions& options,
                          const nn::SlotTypes& types) {
  EngineInfo info{.name = c.name,
                  .family = std::string(c.family->name),
                  .architecture = c.config.architecture,
                  .built_by = std::string("ingot ") + kVersion,
                  .source = c.identity,
                  .vocab = c.config.vocab,
                  .layers = c.config.layers};
  info.max_seq = resolved_max_seq(c, options);
  info.max_batch = options.max_batch;
  info.end_ids = c.end_ids;
  info.bos_id = c.config.bos_id;
  if (!c.config.eos_ids.empty()) info.eos_id = c.config.eos_ids[0];
  info.generation = c.generation;
  std::map<std::string, std::int64_t> formats;
  for (const auto& [slot, type] : types) {
    const std::int64_t values = type.at(DimValues{}).elements();
    formats[std::string(type.format->name)] += values;
    info.parameters += values;
  }
  info.weight_formats.assign(formats.begin(), formats.end());
  return info;
}

struct KvCacheName {
  std::string_view name;
  DType dtype;
};
constexpr KvCacheName kKvCaches[] = {
    {"bf16", DType::kBF16}, {"int8", DType::kI8}, {"fp8", DType::kE4M3}};

// The type of the cache, which the device can keep.
DType kv_dtype(const Checkpoint& c, const Device& device, const BuildOptions& options) {
  if (options.kv_cache == "auto") return device.kv_dtype(options.mode);
  const auto* it = std::find_if(std::begin(kKvCaches), std::end(kKvCaches),
                                [&](const KvCacheName& k) { return k.name == options.kv_cache; });
  if (it == std::end(kKvCaches))
    fail(ErrorCode::kUsage, "[build.kv_cache] {}; wanted auto, bf16, int8 or fp8",
         options.kv_cache);
  try {
    device.page_bytes(
        {.kv_heads = c.config.kv_heads, .head_dim = c.config.head_dim, .dtype = it->dtype},
        device.page_tokens());
  } catch (const Error& e) {
    fail(ErrorCode::kUsage, "[build.kv_cache] {}: {}", options.kv_cache, e.message());
  }
  return it->dtype;
}

// With the windows and sinks that are asked for.
DecoderConfig config_of(const Checkpoint& c, const BuildOptions& options) {
  DecoderConfig config = c.config;
  if (const std::int64_t window = options.attention_window; window > 0)
    for (std::int64_t& w : config.windows) w = w == 0 ? window : std::min(w, window);
  config.sink_tokens = options.sink_tokens;
  if (options.attention_window < 0 || options.attention_window > INT32_MAX)
    fail(ErrorCode::kUsage, "[build.attention_window] {}; wanted 0, for the model's own, or more",
         options.attention_window);
  if (options.sink_tokens < 0 || options.sink_tokens > INT32_MAX)
    fail(ErrorCode::kUsage, "[build.sink_tokens] {}; wanted 0 or more", options.sink_tokens);
  if (options.sink_tokens > 0 && std::ranges::count(config.windows, 0) == c.config.layers)
    fail(
        ErrorCode::kUsage,
        "[build.sink_tokens] {}: every layer of {} sees all tokens; wanted an attention_window too",
        options.sink_tokens, c.name);
  return config;
}

void report(const BuildOptions& options, double part, const std::string& what) {
  if (options.progress) options.progress(part, what);
}

}  // namespace

BuiltModel compile_checkpoint(const Checkpoint& c, const Device& device,
                              const BuildOptions& options) {
  if (options.max_batch < 1 || options.max_batch > 4096)
    fail(ErrorCode::kUsage, "[build.max_batch] {}; wanted 1 to 4096", options.max_batch);
  if (options.max_tokens < 1 || options.max_tokens > 65536)
    fail(ErrorCode::kUsage, "[build.max_tokens] {}; wanted 1 to 65536", options.max_tokens);
  // Also where no weight takes it.
  if (options.quant != "none" && !weight_format(options.quant).quantize_row)
    fail(ErrorCode::kUsage, "[build.quant] {} is a format that Ingot reads and does not write",
         options.quant);
  BuiltModel model;
  nn::SlotTypes types = slot_types(c, options);
  model.info = describe_model(c, options, types);
  const RopeTables tables = tables_of(c, model.info.max_seq);
  model.info.rope_long_from = tables.long_from;
  types.emplace("rope.inv_freq", table_type(tables));

  nn::BuilderOptions build{.activation = device.activation_dtype(options.mode),
                           .kv = kv_dtype(c, device, options)};
  build.max[Symbol::kTokens] = std::max(options.max_tokens, options.max_batch);
  build.max[Symbol::kSequences] = options.max_batch;
  build.max[Symbol::kRows] = std::max<std::int64_t>(options.max_batch, 16);
  build.max[Symbol::kPages] =
      (model.info.max_seq + device.page_tokens() - 1) / device.page_tokens();
  Graph graph = c.family->build(config_of(c, options), build, types, tables);
  model.compiled =
      compile(std::move(graph), device, {.mode = options.mode, .skip_passes = options.skip_passes});
  return model;
}

std::string kv_cache_name(const Plan& plan) {
  if (plan.states.empty()) return "none";
  const DType dtype = plan.states[0].spec.dtype;
  for (const KvCacheName& k : kKvCaches)
    if (k.dtype == dtype) return std::string(k.name);
  return std::string(dtype_name(dtype));
}

std::string kept_formats(const Plan& plan, const std::string& quant) {
  if (quant == "none") return {};
  std::map<std::string, int> kept;
  for (const PlanWeight& weight : plan.weights)
    if (!weight_format(weight.format).exact_dtype && weight.format != quant) ++kept[weight.format];
  std::string text;
  for (const auto& [format, count] : kept)
    text += fmt::format("{}{} in {}", text.empty() ? "" : ", ", count, format);
  if (text.empty()) return {};
  return fmt::format("--quant {} converts float weights; these matrices keep their format: {}",
                     quant, text);
}

void write_engine(const Checkpoint& c, const Device& device, const BuildOptions& options,
                  BuiltModel model, EngineWriter& writer) {
  const RopeTables tables = tables_of(c, model.info.max_seq);
  std::vector<float> table;
  for (const auto& row : tables.rows) table.insert(table.end(), row.begin(), row.end());
  WeightRows source(c, {{"rope.inv_freq", std::move(table)}}, options.workers);

  Plan& plan = model.compiled.plan;
  const auto total = static_cast<double>(std::max<std::uint64_t>(1, plan.weight_bytes()));
  writer.begin_blob("weights");
  for (PlanWeight& weight : plan.weights) {
    report(options, static_cast<double>(weight.offset) / total, "packing " + weight.name);
    const std::vector<std::byte> rows = source.rows(weight);
    std::vector<std::byte> packed(weight.bytes);
    device.pack_weight({weight.layout, weight.bytes}, weight_format(weight.format), weight.shape,
                       rows, packed);
    weight.checksum = hash64(packed);
    writer.pad_blob_to(kWeightAlignment);
    check(writer.blob_position() == weight.offset, "weights lie where the plan says");
    writer.append(packed);
  }
  writer.end_blob();
  if (!c.tokenizer_image.empty())
    writer.add_blob("tokenizer", std::as_bytes(std::span(c.tokenizer_image)));
  if (!c.chat_template.empty())
    writer.add_blob("chat_template", std::as_bytes(std::span(c.chat_template)));
  for (const auto& [name, object] : model.compiled.code.objects())
    writer.add_blob("code/" + name, std::as_bytes(std::span(object)));

  Json passes = Json::array();
  for (const PassReport& p : model.compiled.passes)
    passes.push_back(
        {{"name", p.name}, {"changed", p.changed}, {"skipped", p.skipped}, {"nodes", p.nodes}});
  writer.commit({{"info", to_json(model.info)},
                 {"plan", to_json(plan)},
                 {"graph", print(model.compiled.graph)},
                 {"passes", passes},
                 {"notices", c.notices}});
  report(options, 1.0, "done");
}

MemoryNeeds memory_needs(const Plan& plan, const Device& device) {
  MemoryNeeds needs{.weights = plan.weight_bytes(),
                    .activations = plan.arena_bytes,
                    .workspace = plan.workspace_bytes};
  for (const PlanState& state : plan.states)
    needs.page += device.page_bytes(state.spec, plan.page_tokens);
  return needs;
}

std::string engine_cache_key(const std::string& identity, const Device& device,
                             const BuildOptions& o) {
  std::string passes;
  for (const std::string& p : o.skip_passes) passes += p + ",";
  // Which formats a device packs, and how, changes with the program.
  std::string target = device.info().target;
  const WeightUse matrix{.op = "linear", .operand = 1};
  for (const WeightFormat* format : weight_formats())
    target += ',' + device.weight_layout(*format, {64, 256}, {&matrix, 1}).name;
  return hash128_hex(fmt::format(
      "{} {} {} {} {} {} {} {} {} {} {} {} {}", kVersion, kEngineFormatVersion, identity, target,
      o.mode == ComputeMode::kF32 ? "f32" : "native", o.quant, o.kv_cache, o.max_batch, o.max_seq,
      o.max_tokens, o.attention_window, o.sink_tokens, passes));
}

}  // namespace ingot
