#include "recipe/matches.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/glob.h"
#include "base/json.h"
#include "base/keys.h"
#include "base/nearest.h"
#include "recipe/layer_names.h"

namespace ng {
namespace {

using LayerNames = std::vector<std::string>;

constexpr std::string_view kNoise = "weight_noise";

bool is_table(std::string_view layer) { return layer == layers::kEmbed || layer == layers::kPos; }

LayerPlace place_in(const ModelLayers& model, std::string_view layer) {
  return {.name = layer, .block = layers::place_of(layer).block, .depth = model.depth};
}

RecipeMatch match_of(const ResolvedRecipe& recipe, size_t i, const ModelLayers& model) {
  const RecipeOverride& override_ = recipe.overrides[i];
  const bool stores = override_.changes_weights(recipe.phases.front());
  RecipeMatch match{.key = fmt::format("override[{}]", i + 1),
                    .place = override_.place,
                    .patterns = override_.layers,
                    .blocks = override_.blocks ? override_.blocks->text() : "",
                    .is_optional = override_.is_optional,
                    .layers = {}};
  for (const std::string& layer : model.names)
    if (override_.matches(place_in(model, layer)) && (stores || !is_table(layer)))
      match.layers.push_back(layer);
  return match;
}

RecipeMatch noise_match(const ResolvedRecipe& recipe, const ModelLayers& model) {
  const RecipeSettings& base = recipe.phases.front();
  const auto said = last_item(recipe.source.documents, std::string(kNoise) + ".layers");
  RecipeMatch match{.key = std::string(kNoise),
                    .place = said ? said->place : recipe.source.place,
                    .patterns = base.weight_noise.layers,
                    .blocks = {},
                    .is_optional = base.weight_noise.is_optional,
                    .layers = {}};
  for (const std::string& layer : model.names)
    if (has_noise(base, place_in(model, layer))) match.layers.push_back(layer);
  return match;
}

RecipeMatch phase_match(const ResolvedRecipe& recipe, size_t phase, const ModelLayers& model) {
  RecipeMatch match{.key = fmt::format("phase[{}]", phase),
                    .place = place_of(recipe.phase_patches[phase - 1]->source()),
                    .patterns = {},
                    .blocks = {},
                    .start = recipe.phase_starts[phase],
                    .layers = {}};
  for (const std::string& layer : model.names) {
    const LayerPlace place = place_in(model, layer);
    const auto gemms_in = [&](size_t of) { return recipe.settings_of(place, int(of)).linear; };
    if (!is_table(layer) && !(gemms_in(phase) == gemms_in(phase - 1)))
      match.layers.push_back(layer);
  }
  return match;
}

bool means_any(std::string_view pattern, const LayerNames& names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return glob_matches(pattern, name); });
}

/// Of every architecture.
LayerNames all_names(int64_t depth) {
  LayerNames names = {std::string(layers::kHead), std::string(layers::kEmbed),
                      std::string(layers::kPos)};
  for (int64_t block = 0; block < depth; ++block)
    for (const std::string_view part : layers::kLinearsOfBlocks)
      names.push_back(layers::in_block(block, part));
  return names;
}

std::string any_block(std::string_view part) {
  return fmt::format("{}*.{}", layers::kBlocks, part);
}

/// Patterns for what a model has: of every layer by its name without the number of its block, and
/// of the halves of blocks.
LayerNames patterns_for(const ModelLayers& model) {
  LayerNames patterns;
  for (const std::string& half : {any_block("attn.*"), any_block("mlp.*")})
    if (means_any(half, model.names)) patterns.push_back(half);
  for (const std::string& layer : model.names) {
    const layers::Place place = layers::place_of(layer);
    if (place.block <= 0) patterns.push_back(place.block < 0 ? layer : any_block(place.part));
  }
  return patterns;
}

/// What is left of "blocks.7.mlp.up", "*.mlp.up" and "mlp.up" is the same.
std::string_view without_block(std::string_view pattern) {
  if (pattern.starts_with(layers::kBlocks)) {
    pattern.remove_prefix(layers::kBlocks.size());
    pattern.remove_prefix(std::min(pattern.find('.'), pattern.size() - 1) + 1);
  }
  while (pattern.starts_with("*.")) pattern.remove_prefix(2);
  return pattern;
}

/// The pattern that is spelled most like it; none where all differ in more than a third.
std::optional<std::string> likeliest(std::string_view pattern, const ModelLayers& model) {
  const LayerNames candidates = patterns_for(model);
  const std::string_view part = without_block(pattern);
  const auto distance = [&](const std::string& candidate) {
    return edit_distance(part, without_block(candidate));
  };
  const auto least =
      std::min_element(candidates.begin(), candidates.end(),
                       [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
  const int most = std::max(1, static_cast<int>(part.size() / 3));
  if (candidates.empty() || part.empty() || distance(*least) > most) return {};
  return *least;
}

/// What others call layers, and which they are here: the first that a pattern holds.
struct OtherName {
  std::string_view theirs, part;
};
constexpr OtherName kOtherNames[] = {{"q_proj", layers::kQ},
                                     {"q_proj", layers::kQkv},
                                     {"k_proj", layers::kK},
                                     {"k_proj", layers::kQkv},
                                     {"v_proj", layers::kV},
                                     {"v_proj", layers::kQkv},
                                     {"c_attn", layers::kQkv},
                                     {"o_proj", layers::kAttnOut},
                                     {"attn.c_proj", layers::kAttnOut},
                                     {"gate_proj", layers::kGate},
                                     {"up_proj", layers::kUp},
                                     {"c_fc", layers::kUp},
                                     {"down_proj", layers::kDown},
                                     {"mlp.c_proj", layers::kDown},
                                     {"lm_head", layers::kHead},
                                     {"embed_tokens", layers::kEmbed},
                                     {"wte", layers::kEmbed},
                                     {"wpe", layers::kPos},
                                     {"self_attn", "attn.*"},  // what is left of such a layer
                                     {"ffn", "mlp.*"},
                                     {"feed_forward", "mlp.*"}};

/// The pattern for layers by another name: "blocks.*.attn.q" for "*.self_attn.q_proj".
std::optional<std::string> by_other_name(std::string_view pattern, const ModelLayers& model) {
  for (const OtherName& name : kOtherNames) {
    if (pattern.find(name.theirs) == pattern.npos) continue;
    for (const std::string& ours : {any_block(name.part), std::string(name.part)})
      if (means_any(ours, model.names)) return ours;
  }
  return {};
}

std::string names_text(const ModelLayers& model) {
  LayerNames parts, outside;
  for (const std::string& layer : model.names) {
    const layers::Place place = layers::place_of(layer);
    if (place.block <= 0) (place.block == 0 ? parts : outside).emplace_back(place.part);
  }
  return fmt::format("{}N. with {}{}{}", layers::kBlocks, fmt::join(parts, " "),
                     outside.empty() ? "" : ", or ", fmt::join(outside, " "));
}

constexpr const char* kOrOptional = "; or optional = true, where it may mean none";

void refuse_pattern(const RecipeMatch& match, const std::string& pattern, const ModelLayers& model,
                    std::string_view name) {
  throw Error({.place = match.place,
               .key = match.key + ".layers",
               .problem = fmt::format("{} means no layer", toml_quote(pattern)),
               .remedy = near_pattern(pattern, model, name) + kOrOptional});
}

/// Patterns that mean no layer of `known`.
void require_patterns(const RecipeMatch& match, const LayerNames& known, const ModelLayers& model,
                      std::string_view name) {
  for (const std::string& pattern : match.patterns)
    if (!match.is_optional && !means_any(pattern, known))
      refuse_pattern(match, pattern, model, name);
}

/// A pattern that means layers of the model, and none that the table changes.
void refuse_unchanged(const RecipeMatch& match, const std::string& pattern) {
  const bool is_noise = match.key == kNoise;
  const char* const problem = is_noise ? "means no layer of a block" : "is no linear layer";
  const char* const remedy = is_noise ? "layers of blocks, which alone have noise"
                                      : "linear layers, or keys of weights, which embeddings have";
  throw Error({.place = match.place,
               .key = match.key + ".layers",
               .problem = fmt::format("{} {}", toml_quote(pattern), problem),
               .remedy = std::string(remedy) + kOrOptional});
}

}  // namespace

std::vector<RecipeMatch> matches_of(const ResolvedRecipe& recipe, const ModelLayers& model) {
  std::vector<RecipeMatch> matches;
  for (size_t i = 0; i < recipe.overrides.size(); ++i)
    matches.push_back(match_of(recipe, i, model));
  if (recipe.phases.front().weight_noise.kind != NoiseKind::none)
    matches.push_back(noise_match(recipe, model));
  for (size_t phase = 1; phase < recipe.phases.size(); ++phase)
    matches.push_back(phase_match(recipe, phase, model));
  return matches;
}

Json matches_json(const std::vector<RecipeMatch>& matches) {
  Json all = Json::array();
  for (const RecipeMatch& match : matches) {
    Json json = {{"key", match.key}, {"matched", match.layers}};
    if (match.is_phase()) {
      json["start"] = match.start;
    } else {
      json["layers"] = match.patterns;
      json["optional"] = match.is_optional;
    }
    if (!match.blocks.empty()) json["blocks"] = match.blocks;
    all.push_back(std::move(json));
  }
  return all;
}

std::string near_pattern(std::string_view pattern, const ModelLayers& model,
                         std::string_view name) {
  std::optional<std::string> meant;
  for (const std::string& longer : {any_block(pattern), fmt::format("*.{}", pattern)})
    if (!meant && means_any(longer, model.names)) meant = longer;
  const layers::Place place = layers::place_of(pattern);
  if (place.block >= model.depth)
    return fmt::format("blocks 0 to {}, which {} has", model.depth - 1, name);
  if (!meant) meant = by_other_name(pattern, model);
  if (!meant) meant = likeliest(pattern, model);
  if (!meant) return fmt::format("patterns of {}", names_text(model));
  const auto count = std::count_if(model.names.begin(), model.names.end(),
                                   [&](const auto& layer) { return glob_matches(*meant, layer); });
  return fmt::format("{}, which means {} layer{} of {}", toml_quote(*meant), count,
                     count == 1 ? "" : "s", name);
}

void require_matches(const Recipe& recipe, const ModelLayers& model) {
  const LayerNames known = all_names(model.depth);
  for (const RecipeMatch& match : recipe.matches(model)) {
    require_patterns(match, match.key == kNoise ? known : model.names, model, "this model");
    if (match.is_optional || match.patterns.empty() || !match.layers.empty()) continue;
    const auto& first = match.patterns.front();
    if (match.blocks.empty() && match.patterns.size() == 1) {
      if (means_any(first, model.names)) refuse_unchanged(match, first);
      refuse_pattern(match, first, model, "this model");
    }
    std::string what = match.blocks.empty() ? "" : "blocks = " + toml_quote(match.blocks);
    if (first != "*")
      what = fmt::format("layers = {}{}{}", print_value(match.patterns),
                         what.empty() ? "" : " with ", what);
    throw Error({.place = match.place,
                 .key = match.key,
                 .problem = what + " means no layer",
                 .remedy = fmt::format("some of this model's {} blocks and of {}{}", model.depth,
                                       names_text(model), kOrOptional)});
  }
}

void require_known_patterns(const Recipe& recipe, const ModelLayers& example,
                            std::string_view name) {
  constexpr int64_t kMostBlocks = 1024;
  const LayerNames known = all_names(kMostBlocks);
  for (const RecipeMatch& match : recipe.matches(example))
    require_patterns(match, known, example, name);
}

}  // namespace ng
