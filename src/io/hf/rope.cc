#include "io/hf/rope.h"

#include <fmt/format.h>

#include <cstdlib>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/json_number.h"

namespace ng::io {
namespace {

constexpr const char* kOriginalContext = "original_max_position_embeddings";

void require_whole_heads(const JsonObject& json) {
  if (json.number_or("partial_rotary_factor", 0.0, 1.0, 1.0) == 1.0) return;
  json.refuse("partial_rotary_factor", brief(json.at("partial_rotary_factor")), "1.0");
}

std::string rope_type(const JsonObject& rope) {
  std::string found = "default";
  for (const char* key : {"type", "rope_type"}) {
    const std::string type = rope.text_or(key, found);
    if (type != "default" && type != "llama3")
      rope.refuse(key, fmt::format("\"{}\" is not supported", type), "\"default\" or \"llama3\"");
    found = type;
  }
  return found;
}

/// Where no original context is given it is the model's, as transformers has it.
RopeScaling read_llama3(const JsonObject& json, const JsonObject& rope, int64_t context) {
  constexpr double kMost = 1e6;
  constexpr int64_t kMostTokens = int64_t{1} << 30;
  RopeScaling scaling{.factor = rope.number("factor", 1.0, kMost),
                      .low_freq_factor = rope.number("low_freq_factor", 1e-6, kMost),
                      .high_freq_factor = rope.number("high_freq_factor", 1e-6, kMost)};
  if (scaling.high_freq_factor <= scaling.low_freq_factor)
    rope.refuse("high_freq_factor", fmt::format("{}", scaling.high_freq_factor),
                fmt::format("above low_freq_factor ({})", scaling.low_freq_factor));
  const JsonObject& place = json.has(kOriginalContext) ? json : rope;
  scaling.original_context = place.integer_or(kOriginalContext, 1, kMostTokens, context);
  return scaling;
}

RopeScaling read_scaling(const JsonObject& json, const JsonObject& rope, int64_t context) {
  require_whole_heads(rope);
  return rope_type(rope) == "llama3" ? read_llama3(json, rope, context) : RopeScaling{};
}

}  // namespace

// rope_theta at the top (transformers 4) or inside rope_parameters (5); scaling in rope_scaling (4)
// or beside that.
void read_hf_rope(const JsonObject& json, ModelConfig* config) {
  constexpr double kDefault = 10000.0;
  constexpr double kLeast = 1e-3;
  constexpr double kMost = 1e30;
  require_whole_heads(json);
  double theta = json.number_or("rope_theta", kLeast, kMost, kDefault);
  std::optional<RopeScaling> scaling;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!json.has(key)) continue;
    const JsonObject rope = json.object(key);
    const double inner = rope.number_or("rope_theta", kLeast, kMost, theta);
    if (json.has("rope_theta") && inner != theta)
      rope.refuse("rope_theta",
                  fmt::format("{} contradicts the rope_theta {} above it", inner, theta),
                  "write one of them");
    theta = inner;
    const RopeScaling found = read_scaling(json, rope, config->context);
    if (scaling && found != *scaling)
      json.refuse(key, "contradicts rope_scaling above it", "write one of them");
    scaling = found;
  }
  config->rope_theta = static_cast<float>(theta);
  config->rope_scaling = scaling.value_or(RopeScaling{});
}

void add_hf_rope(const ModelConfig& config, OrderedJson* json) {
  const double theta = shortest_decimal(config.rope_theta);
  const RopeScaling& by = config.rope_scaling;
  (*json)["rope_theta"] = theta;  // for transformers 4
  if (by.original_context == 0) {
    (*json)["rope_parameters"] = {{"rope_theta", theta}, {"rope_type", "default"}};
    return;
  }
  OrderedJson scaling = {{"rope_type", "llama3"},
                         {"factor", by.factor},
                         {"low_freq_factor", by.low_freq_factor},
                         {"high_freq_factor", by.high_freq_factor},
                         {kOriginalContext, by.original_context}};
  (*json)["rope_scaling"] = scaling;  // for transformers 4
  scaling["rope_theta"] = theta;
  (*json)["rope_parameters"] = scaling;
}

}  // namespace ng::io
