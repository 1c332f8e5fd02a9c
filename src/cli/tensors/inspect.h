// What inspect says of a file's tensors, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "learned/bits.h"
#include "tools/format_trial.h"
#include "tools/recipe_trial.h"

namespace ng::cli {

/// Facts, histogram, table and recommendation: lines of at most 100 columns.
[[nodiscard]] std::string inspect_text(const io::SafetensorsEntry& entry, const TensorFacts& facts,
                                       const std::vector<RuleTrials>& trials);

/// What a recipe does to a tensor: a row for each cast; nothing where there are none.
[[nodiscard]] std::string recipe_uses_text(const std::vector<RecipeUse>& uses);
[[nodiscard]] Json recipe_uses_json(const std::vector<RecipeUse>& uses);

/// What noise on weights has learned: bit-widths of a checkpoint, in the order of the model.
struct LearnedOfFile {
  std::string recipe;  ///< of the checkpoint's run; empty where it is not known: then b_i alone is
  std::vector<LearnedBits> layers;
};

/// Those whose tensors' names match the glob; no layers where there are none.
[[nodiscard]] LearnedOfFile learned_of(const io::Safetensors& file, const std::string& names);

/// A table by layer, then what all weights say together; nothing where there are no layers.
[[nodiscard]] std::string learned_text(const LearnedOfFile& learned);

/// {"recipe": name or null, "layers": [{"layer", "blocks": [rows, cols], "mean", "sd", "min",
/// "max", ...}, ...]}. With a recipe these are of "b_t", [row of blocks][column], and there are
/// shares of blocks, "up_to_5", "up_to_9" and "up_to_12", and the same of all layers' "weights";
/// without one they are of "b_i".
[[nodiscard]] Json learned_json(const LearnedOfFile& learned);

}  // namespace ng::cli
