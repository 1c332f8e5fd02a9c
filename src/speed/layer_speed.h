// How fast the linear layers of a model are in a recipe, measured on this machine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/config.h"
#include "recipe/recipe.h"
#include "run/run.h"

namespace ng {

/// Layers of one shape that have the same numbers.
struct LayerKind {
  std::vector<std::string> names;
  int64_t outputs = 0, inputs = 0;
  LinearRecipe recipe;
};

/// The linear layers of a model in a phase of a recipe, in the model's order.
[[nodiscard]] std::vector<LayerKind> layer_kinds(const ModelConfig& config, const Recipe& recipe,
                                                 int phase);

/// Of one layer: fprop; dgrad and wgrad; both by kind in one round, the fastest. Quantization is
/// included.
struct LayerSeconds {
  double forward = 0, backward = 0;
  TimeByKind by_kind{};
  [[nodiscard]] double total() const { return forward + backward; }
};

struct LayerComparison {
  LayerSeconds measured;
  LayerSeconds in_fp32;  ///< the same layer
};

/// One such layer's time, forward and backward each the best of several rounds. The recipe and FP32
/// take turns, so that a machine that is slow for a while is slow for both.
[[nodiscard]] LayerComparison compare_layer(
    const LayerKind& kind, int64_t tokens,
    const std::function<std::unique_ptr<Backend>()>& backend);

}  // namespace ng
