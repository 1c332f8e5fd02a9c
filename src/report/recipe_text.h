// A recipe as text: in which numbers each GEMM is and how a backend runs it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "model/config.h"
#include "recipe/phase_choice.h"
#include "recipe/recipe.h"

namespace ng::report {

/// How `backend` multiplies the operands of a GEMM. cpu: "native", "exact on integer dot products",
/// "exact on BF16 dot products", or "exact on FP32 units" where every product of two elements is
/// exact in FP32 and the instruction set in use has no units for the format itself.
[[nodiscard]] std::string how_it_runs(const GemmRecipe& gemm, std::string_view backend);

/// {"left": ..., "right": ..., "hadamard": size or 0, "sum": "chain", "runs": as above}
[[nodiscard]] Json gemm_json(const GemmRecipe& gemm, std::string_view backend);

/// Layers that have the same numbers.
struct LayerGroup {
  std::string layers;
  LinearRecipe recipe;
};

/// The three GEMMs of each group, a line each; one line where all are alike.
[[nodiscard]] std::string gemm_lines(const std::vector<LayerGroup>& groups,
                                     std::string_view backend);

/// {"recipe", "phase", "phases", "matches"}: in which numbers a model is.
[[nodiscard]] Json numbers_json(const Recipe& recipe, const MeasuredPhase& phase,
                                const ModelConfig& config);
/// Which layers it means: `override[1] (blocks = "-15%:") means: 7 layers, blocks.3.attn.q ... `
[[nodiscard]] std::string match_text(const RecipeMatch& match);
/// Those of each, a line each.
[[nodiscard]] std::string matches_text(const std::vector<RecipeMatch>& matches);

/// "blocks.0.attn.q", "28 layers, blocks.0.attn.q ... blocks.6.attn.out"
[[nodiscard]] std::string layers_text(const std::vector<std::string>& names);

/// Layer names grouped by equal recipes in the order of their first member: "28 layers", "head".
class LayerGroups {
 public:
  void add(const std::string& name, const LinearRecipe& recipe);
  [[nodiscard]] std::vector<LayerGroup> groups() const;

 private:
  struct Members {
    LinearRecipe recipe;
    std::vector<std::string> names;
  };
  std::vector<Members> members_;
};

}  // namespace ng::report
