#include "recipe/layer_trial.h"

#include <algorithm>
#include <map>

#include "recipe/layer_names.h"

namespace ng {
namespace {

/// Small ones, where slices from both ends overlap, to the largest of today's models.
constexpr int64_t kDepths[] = {1, 2, 3, 4, 6, 12, 24, 48, 128};

/// Layers with the same overrides get the same settings.
class LayerTrial {
 public:
  LayerTrial(const ResolvedRecipe& recipe, const std::function<void(const RecipeSettings&)>& use)
      : recipe_(recipe), use_(use), unused_(recipe.overrides.size()) {}

  void try_layer(const LayerPlace& layer) {
    std::vector<bool> matches = {layer.block < 0};
    for (const RecipeOverride& override_ : recipe_.overrides)
      matches.push_back(override_.matches(layer));
    const auto [noisy, is_new] = noisy_.try_emplace(std::move(matches), false);
    if (!is_new && !noisy->second) return;  // noise asks for the layer's name too
    for (size_t phase = 0; phase < recipe_.phases.size(); ++phase) {
      const RecipeSettings settings = recipe_.settings_of(
          layer, int(phase),
          [&](size_t i, const RecipeSettings& changed) { keep_unused(i, changed); });
      noisy->second |= settings.weight_noise.kind != NoiseKind::none;
      if (is_new) use_(settings);
    }
  }

  /// To be called after all layers; the overrides that met none.
  [[nodiscard]] std::vector<size_t> finish() const {
    std::vector<size_t> idle;
    for (size_t i = 0; i < unused_.size(); ++i) {
      if (unused_[i] && !unused_[i]->empty()) throw Error(unused_[i]->front());
      if (unused_[i]) continue;
      use_alone(recipe_.overrides[i]);
      if (!stores_embedding(recipe_.overrides[i])) idle.push_back(i);
    }
    return idle;
  }

 private:
  /// Keys of override `i` that have no effect here either.
  void keep_unused(size_t i, const RecipeSettings& settings) {
    std::optional<std::vector<Error>>& unused = unused_[i];
    if (unused && unused->empty()) return;
    std::vector<Error> here = recipe_.overrides[i].unused_keys(settings);
    if (unused)
      std::erase_if(*unused, [&](const Error& error) {
        return std::none_of(here.begin(), here.end(), [&](const Error& other) {
          return other.parts().key == error.parts().key;
        });
      });
    else
      unused = std::move(here);
  }

  [[nodiscard]] bool stores_embedding(const RecipeOverride& override_) const {
    const auto names = {layers::kEmbed, layers::kPos};
    return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
      return override_.matches({.name = name, .block = -1, .depth = kDepths[0]}) &&
             override_.changes_weights(recipe_.phases.front());
    });
  }

  void use_alone(const RecipeOverride& override_) const {
    for (const RecipeSettings& settings : recipe_.phases) use_(override_.over(settings));
  }

  const ResolvedRecipe& recipe_;
  const std::function<void(const RecipeSettings&)>& use_;
  std::map<std::vector<bool>, bool> noisy_;  ///< which overrides, of those tried: is there noise?
  std::vector<std::optional<std::vector<Error>>> unused_;  ///< empty: the override met no layer
};

}  // namespace

std::vector<size_t> try_layers(const ResolvedRecipe& recipe,
                               const std::function<void(const RecipeSettings&)>& use) {
  LayerTrial trial(recipe, use);
  for (const int64_t depth : kDepths) {
    trial.try_layer({.name = layers::kHead, .block = -1, .depth = depth});
    for (const std::string_view table : {layers::kEmbed, layers::kPos})  // stored, but no GEMM's
      (void)recipe.settings_of({.name = table, .block = -1, .depth = depth}, 0);
    for (int64_t block = 0; block < depth; ++block)
      for (const std::string_view layer : layers::kLinearsOfBlocks) {
        const std::string name = layers::in_block(block, layer);
        trial.try_layer({.name = name, .block = block, .depth = depth});
      }
  }
  return trial.finish();
}

}  // namespace ng
