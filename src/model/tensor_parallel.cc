#include "model/tensor_parallel.h"

#include <algorithm>
#include <array>

#include "recipe/layer_names.h"

namespace ng {
namespace {

/// Layers whose outputs are divided; attn.out and mlp.down have their inputs divided.
constexpr std::array kByOutput = {layers::kQkv,  layers::kQ,  layers::kK,     layers::kV,
                                  layers::kGate, layers::kUp, layers::kEmbed, layers::kHead};

void divide(int64_t& size, int64_t ranks) { size = (size + ranks - 1) / ranks; }

}  // namespace

void require_tensor_parallel(const ModelConfig& config, int64_t ranks, std::string_view place) {
  const auto require = [&](int64_t size, const char* what) {
    if (size % ranks == 0) return;
    throw Error({.place = std::string(place),
                 .key = "",
                 .problem = fmt::format("{} ranks for {} {}", ranks, size, what),
                 .remedy = "a divisor of them"});
  };
  require(config.heads, "heads");
  require(config.kv_heads, "heads of keys and values");
  require(config.ffn, "outputs of the feed-forward layer");
}

std::vector<ParameterSpec> tensor_parallel_parts(std::vector<ParameterSpec> specs, int64_t ranks) {
  for (ParameterSpec& spec : specs) {
    const std::string_view part = layers::place_of(layers::layer_of(spec.name)).part;
    const bool by_output = std::find(kByOutput.begin(), kByOutput.end(), part) != kByOutput.end();
    if (by_output)
      divide(spec.is_vector ? spec.cols : spec.rows, ranks);
    else if (!spec.is_vector && (part == layers::kAttnOut || part == layers::kDown))
      divide(spec.cols, ranks);
  }
  return specs;
}

}  // namespace ng
