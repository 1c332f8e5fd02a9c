#include "learned/cast.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>

#include "base/error.h"
#include "base/keys.h"
#include "base/toml.h"
#include "format/block_cast.h"
#include "numbers/narrow_matrix.h"
#include "recipe/layer_names.h"
#include "recipe/operand_keys.h"
#include "recipe/update_words.h"

namespace ng {
namespace {

/// Layers by what they are stored as: patterns for override tables, in the order of `layers`.
using LayersByStorage = std::vector<std::pair<std::string, std::vector<std::string>>>;

/// Where all blocks of the model have a part alike, one pattern means it: "blocks.*.mlp.up".
std::vector<std::string> patterns_of(const std::vector<std::string>& names, int64_t depth) {
  std::map<std::string_view, int64_t> counts;
  for (const std::string& name : names) ++counts[layers::place_of(name).part];
  std::vector<std::string> patterns;
  for (const std::string& name : names) {
    const layers::Place place = layers::place_of(name);
    if (counts[place.part] < depth)
      patterns.push_back(name);
    else if (place.block == 0)
      patterns.push_back(fmt::format("{}*.{}", layers::kBlocks, place.part));
  }
  return patterns;
}

LayersByStorage by_storage(const std::vector<LearnedLayer>& layers,
                           const std::vector<Operand>& casts) {
  LayersByStorage groups;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (casts[i].is_fp32()) continue;  // as without an override
    const std::string storage = print_operand(casts[i]);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& g) { return g.first == storage; });
    if (group == groups.end()) group = groups.emplace(group, storage, std::vector<std::string>{});
    group->second.push_back(layers[i].name);
  }
  return groups;
}

std::string recipe_head(const LearnedRun& run, const std::string& name) {
  std::string text =
      fmt::format("name = {}\ninherit = \"{}\"\n", toml_quote(name), plain_numbers(run));
  const OptimizerRecipe::Kind kind = run.recipe.settings(0).optimizer.kind;
  if (kind != OptimizerRecipe::Kind::adamw)
    text += fmt::format("optimizer.kind = \"{}\"\n", kOptimizerKinds.name_of(kind));
  return text;
}

}  // namespace

std::vector<const LearnedFormat*> formats_by_layer(const std::vector<LearnedLayer>& layers,
                                                   int least_bits) {
  std::vector<const LearnedFormat*> formats;
  for (const LearnedLayer& layer : layers)
    formats.push_back(&format_for_bits(layer.most_bits(), least_bits));
  return formats;
}

std::vector<const LearnedFormat*> formats_by_block(const LearnedLayer& layer, int least_bits) {
  std::vector<const LearnedFormat*> formats;
  for (const float b : layer.bits) formats.push_back(&format_for_bits(b, least_bits));
  return formats;
}

UniformCast uniform_cast(const std::vector<LearnedLayer>& layers, double most_bytes) {
  std::vector<UniformCast> casts = {{"mxfp4", operand_of("mxfp4")}};
  for (const LearnedFormat& format : learned_formats())
    if (format.name != "fp16") casts.push_back({format.name, format.cast});  // BF16 is as wide
  casts.front().cast.scale_rule = ScaleRule::rceil;                          // as the others
  UniformCast widest = casts.front();
  for (const UniformCast& cast : casts) {
    double bytes = 0;
    for (const LearnedLayer& layer : layers) bytes += stored_bytes(layer, cast.cast);
    if (bytes <= most_bytes) widest = cast;
  }
  return widest;
}

double stored_bytes(const LearnedLayer& layer, const Operand& cast) {
  return stored_bits_per_value(cast, Contract::cols, layer.grid.rows, layer.grid.cols) *
         static_cast<double>(layer.size()) / 8;
}

double stored_bytes_by_block(const LearnedLayer& layer, int least_bits) {
  constexpr int64_t kBeside = 2;  // scale and format
  const std::vector<const LearnedFormat*> formats = formats_by_block(layer, least_bits);
  int64_t bytes = 0;
  layer.grid.for_each([&](size_t block, const BlockGrid::Part& part) {
    bytes += (part.size() * formats[block]->bits() + 7) / 8 + kBeside;
  });
  return static_cast<double>(bytes);
}

std::string recipe_text(const LearnedRun& run, const std::string& name,
                        const std::vector<Operand>& casts) {
  NG_CHECK(casts.size() == run.layers.size(), casts.size(), run.layers.size());
  std::string text = recipe_head(run, name);
  for (const auto& [storage, names] : by_storage(run.layers, casts))
    text += fmt::format(
        "\n[[override]]\nlayers = {}\nweights.storage = {}\nweights.master = \"fp32\"\n",
        print_value(patterns_of(names, run.model.layers)), storage);
  return text;
}

std::string plain_numbers(const LearnedRun& run) {
  const auto last = static_cast<int>(run.recipe.phase_starts().size()) - 1;
  return run.recipe.compute(last) == Compute::bf16 ? "bf16" : "fp32";
}

std::string plain_recipe_text(const LearnedRun& run) { return recipe_head(run, "uncast"); }

std::vector<float> cast_by_block(const LearnedLayer& layer, const std::vector<float>& weight,
                                 int least_bits) {
  NG_CHECK(std::ssize(weight) == layer.size(), weight.size(), layer.name);
  const std::vector<const LearnedFormat*> formats = formats_by_block(layer, least_bits);
  std::vector<float> values = weight;
  layer.grid.for_each([&](size_t block, const BlockGrid::Part& part) {
    if (formats[block]->cast.is_fp32()) return;
    const auto span_of = [&](int64_t r) {
      return std::span(values).subspan(static_cast<size_t>(r * layer.grid.cols + part.col),
                                       static_cast<size_t>(part.col_end - part.col));
    };
    float amax = 0;
    for (int64_t r = part.row; r < part.row_end; ++r)
      for (const float x : span_of(r)) amax = std::max(amax, std::fabs(x));
    const BlockCast round(*formats[block]->cast.element, amax);
    for (int64_t r = part.row; r < part.row_end; ++r)
      for (float& x : span_of(r)) x = round(x);
  });
  return values;
}

}  // namespace ng
