#include "plan/engine_info.h"

#include "base/error.h"

#include <nlohmann/json.hpp>

namespace ingot {

namespace {

template <typename T>
void put(Json& json, const char* key, const std::optional<T>& value) {
  if (value) json[key] = *value;
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
    info.vocab = json.at("vocab").get<std::int64_t>();
    info.layers = json.at("layers").get<std::int64_t>();
    info.parameters = json.at("parameters").get<std::int64_t>();
    info.max_seq = json.at("max_seq").get<std::int64_t>();
    info.max_batch = json.at("max_batch").get<std::int64_t>();
    info.rope_long_from = json.at("rope_long_from").get<std::int64_t>();
    info.end_ids = json.at("end_ids").get<std::vector<std::int32_t>>();
    info.bos_id = get<std::int32_t>(json, "bos_id");
    info.eos_id = get<std::int32_t>(json, "eos_id");
    info.weight_formats =
        json.at("weight_formats").get<std::vector<std::pair<std::string, std::int64_t>>>();
    const Json& generation = json.at("generation");
    info.generation.do_sample = get<bool>(generation, "do_sample");
    info.generation.temperature = get<double>(generation, "temperature");
    info.generation.top_k = get<std::int32_t>(generation, "top_k");
    info.generation.top_p = get<double>(generation, "top_p");
    info.generation.min_p = get<double>(generation, "min_p");
    info.generation.repetition_penalty = get<double>(generation, "repetition_penalty");
    return info;
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorCode::kBadInput, "[engine.info] {}; build the engine again", e.what());
  }
}

}  // namespace ingot
