// Which layers of a model the tables of a recipe mean, and that each means some.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "recipe/resolve.h"

namespace ng {

/// Recipe::matches().
[[nodiscard]] std::vector<RecipeMatch> matches_of(const ResolvedRecipe& recipe,
                                                  const ModelLayers& model);

/// Throws Error, saying what would match, where an override or one of its patterns, or the base's
/// weight noise, means no layer of the model, or a pattern of the latter none that any model of so
/// many blocks could have: one list of these serves several architectures. Not of what is optional.
void require_matches(const Recipe& recipe, const ModelLayers& model);

/// For want of a model, of all patterns what is said of noise's; `example` is one to count in, "a
/// Llama of 12 blocks".
void require_known_patterns(const Recipe& recipe, const ModelLayers& example,
                            std::string_view name);

/// [{"key", "layers", "blocks", "optional", "matched"}] of overrides and weight noise, of phases
/// "start" instead of the patterns: which layers each means.
[[nodiscard]] Json matches_json(const std::vector<RecipeMatch>& matches);

/// `"blocks.*.attn.*", which means 8 layers of this model`: what somebody who wrote `pattern` may
/// have meant; the names of all layers where nothing is near.
[[nodiscard]] std::string near_pattern(std::string_view pattern, const ModelLayers& model,
                                       std::string_view name = "this model");

}  // namespace ng
