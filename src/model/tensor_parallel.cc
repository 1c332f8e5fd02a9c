#include "model/tensor_parallel.h"

#include <algorithm>
#include <array>

#include "recipe/layer_names.h"

namespace ng {
namespace {

/// Layers whose outputs are divided; attn.out and mlp.down have their inputs divided.
constexpr std::array kByOutput = {layers::kQkv, layers::kQ,    layers::kK,
                                  layers::kV,   layers::kGate, layers::kUp};

Cut::Axis axis_of(const ParameterSpec& spec) {
  const std::string_view part = layers::place_of(layers::layer_of(spec.name)).part;
  const bool by_output = std::find(kByOutput.begin(), kByOutput.end(), part) != kByOutput.end();
  if (by_output) return spec.is_vector ? Cut::Axis::cols : Cut::Axis::rows;
  const bool by_input = !spec.is_vector && (part == layers::kAttnOut || part == layers::kDown);
  return by_input ? Cut::Axis::cols : Cut::Axis::none;
}

/// q, k and v, of equal size where they are one.
int bands_of(const ParameterSpec& spec) {
  return layers::place_of(layers::layer_of(spec.name)).part == layers::kQkv ? 3 : 1;
}

}  // namespace

void require_tensor_parallel(const ModelConfig& config, int64_t ranks, std::string_view place) {
  const auto require = [&](int64_t size, const char* what) {
    if (size % ranks == 0) return;
    throw Error({.place = std::string(place),
                 .problem = fmt::format("{} ranks for {} {}", ranks, size, what),
                 .remedy = "a divisor of them"});
  };
  require(config.heads, "heads");
  require(config.kv_heads, "heads of keys and values");
  require(config.ffn, "outputs of the feed-forward layer");
}

std::vector<ParameterSpec> tensor_parallel_parts(std::vector<ParameterSpec> specs, int64_t ranks,
                                                 int64_t part) {
  if (ranks == 1) return specs;
  for (ParameterSpec& spec : specs) {
    const Cut::Axis axis = axis_of(spec);
    if (axis == Cut::Axis::none) continue;
    int64_t& size = axis == Cut::Axis::rows ? spec.rows : spec.cols;
    size /= ranks;
    spec.cut = {.axis = axis,
                .bands = bands_of(spec),
                .part = static_cast<int>(part),
                .parts = static_cast<int>(ranks)};
  }
  return specs;
}

TokenWires token_wires(const Recipe& recipe) {
  const CommunicationRecipe& as = recipe.settings(0).communication;
  TokenWires wires{.inputs = as.activations, .gradients = {}, .sums = as.sums};
  bool is_narrow = true;
  for (size_t phase = 0; phase < recipe.phase_starts().size(); ++phase)
    is_narrow &= recipe.compute(static_cast<int>(phase)) == Compute::bf16;
  for (Operand* wire : {&wires.inputs, &wires.sums})
    if (wire->is_fp32() && is_narrow) *wire = operand_of("bf16");
  wires.gradients = wires.inputs;
  return wires;
}

TokenWires token_wires(const Recipe& recipe, const Linear& to) {
  TokenWires wires = token_wires(recipe);
  const LinearRecipe& first = to.phases().front();
  const Operand& read = first.dgrad.left;
  const bool is_read_so =
      std::all_of(to.phases().begin(), to.phases().end(), [&](const LinearRecipe& phase) {
        return phase.dgrad.left == read && phase.wgrad.left == read && phase.dgrad.hadamard == 0 &&
               phase.wgrad.hadamard == 0;
      });
  const bool is_plain = !read.is_unscaled() && read.block.kind == Block::Kind::tensor &&
                        read.scaling == Scaling::current && read.rounding == Rounding::nearest &&
                        read.prescale == 1.0f && read.overflow == Overflow::saturate;
  if (is_read_so && is_plain && bits_per_value(read) == bits_per_value(wires.inputs))
    wires.gradients = read;
  return wires;
}

}  // namespace ng
