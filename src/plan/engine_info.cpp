#include "plan/engine_info.h"

#include "base/error.h"
#include "base/json_reason.h"

#include <nlohmann/json.hpp>

namespace ingot {

namespace {

template <typename T>
void put(Json& json, const char* key, const std::optional<T>& value) {
  if (value) json[key] = *value;
}

[[noreturn]] void bad(std::string_view what) {
  fail(ErrorCode::kBadInput, "[engine.info] {}; build the engine again", what);
}

// A number of the range, never cut to fit.
template <typename T>
T integer(const Json& j, std::string_view key, T low, T high) {
  const bool fits = j.is_number_integer() &&
                    (!j.is_number_unsigned() || j.get<std::uint64_t>() <= INT64_MAX) &&
                    j.get<std::int64_t>() >= low && j.get<std::int64_t>() <= high;
  if (!fits) bad(fmt::format("{} is {}, wanted {} to {}", key, dump_json(j), low, high));
  return static_cast<T>(j.get<std::int64_t>());
}

std::optional<std::int32_t> token(const Json& json, const char* key) {
  if (!json.contains(key)) return std::nullopt;
  return integer<std::int32_t>(json.at(key), key, 0, INT32_MAX);
}

template <typename T>
std::optional<T> get(const Json& json, const char* key) {
  if (!json.contains(key)) return std::nullopt;
  return json.at(key).get<T>();
}

}  // namespace

Json to_json(const EngineInfo& info) {
  Json generation = Json::object();
  put(generation, "do_sample", info.generation.do_sample);
  put(generation, "temperature", info.generation.temperature);
  put(generation, "top_k", info.generation.top_k);
  put(generation, "top_p", info.generation.top_p);
  put(generation, "min_p", info.generation.min_p);
  put(generation, "repetition_penalty", info.generation.repetition_penalty);
  Json json = {{"name", info.name},
               {"family", info.family},
               {"architecture", info.architecture},
               {"built_by", info.built_by},
               {"source", info.source},
               {"vocab", info.vocab},
               {"layers", info.layers},
               {"parameters", info.parameters},
               {"max_seq", info.max_seq},
               {"max_batch", info.max_batch},
               {"rope_long_from", info.rope_long_from},
               {"end_ids", info.end_ids},
               {"generation", generation},
               {"weight_formats", info.weight_formats}};
  put(json, "bos_id", info.bos_id);
  put(json, "eos_id", info.eos_id);
  return json;
}

EngineInfo engine_info_from_json(const Json& json) {
  try {
    EngineInfo info;
    info.name = json.at("name").get<std::string>();
    info.family = json.at("family").get<std::string>();
    info.architecture = json.at("architecture").get<std::string>();
    info.built_by = json.at("built_by").get<std::string>();
    info.source = json.at("source").get<std::string>();
    const auto count = [&](const char* key, std::int64_t low, std::int64_t high) {
      return integer<std::int64_t>(json.at(key), key, low, high);
    };
    info.vocab = count("vocab", 1, INT32_MAX);
    info.layers = count("layers", 0, INT32_MAX);
    info.parameters = count("parameters", 0, INT64_MAX);
    info.max_seq = count("max_seq", 1, INT32_MAX);
    info.max_batch = count("max_batch", 1, INT32_MAX);
    info.rope_long_from = count("rope_long_from", 0, INT64_MAX);
    if (!json.at("end_ids").is_array()) bad("end_ids is " + dump_json(json.at("end_ids")));
    if (!json.at("weight_formats").is_array())
      bad("weight_formats is " + dump_json(json.at("weight_formats")));
    for (const Json& id : json.at("end_ids"))
      info.end_ids.push_back(integer<std::int32_t>(id, "end_ids", 0, INT32_MAX));
    info.bos_id = token(json, "bos_id");
    info.eos_id = token(json, "eos_id");
    for (const Json& format : json.at("weight_formats"))
      info.weight_formats.emplace_back(
          format.at(0).get<std::string>(),
          integer<std::int64_t>(format.at(1), "weight_formats", 0, INT64_MAX));
    const Json& generation = json.at("generation");
    if (!generation.is_object())
      fail(ErrorCode::kBadInput, "[engine.info] generation is no object; build the engine again");
    info.generation.do_sample = get<bool>(generation, "do_sample");
    info.generation.temperature = get<double>(generation, "temperature");
    info.generation.top_k = token(generation, "top_k");
    info.generation.top_p = get<double>(generation, "top_p");
    info.generation.min_p = get<double>(generation, "min_p");
    info.generation.repetition_penalty = get<double>(generation, "repetition_penalty");
    return info;
  } catch (const nlohmann::json::exception& e) {
    bad(json_reason(e));
  }
}

}  // namespace ingot
