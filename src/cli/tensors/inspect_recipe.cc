#include "base/json.h"
#include "cli/output.h"
#include "cli/tensors/inspect.h"
#include "cli/tensors/tensor_text.h"

namespace ng::cli {

std::string recipe_uses_text(const std::vector<RecipeUse>& uses) {
  if (uses.empty()) return "";
  constexpr Column kColumns[] = {
      {.heading = "by the recipe", .key = "layer"},
      {.heading = "operand", .key = "operand"},
      {.heading = "format", .key = "format"},
      {.heading = "SQNR dB", .key = "sqnr_db", .text = decibel_cell},
      {.heading = "saturated", .key = "saturation", .text = percent_cell},
      {.heading = "to zero", .key = "underflow", .text = percent_cell}};
  return table_of(recipe_uses_json(uses), kColumns, 3) + '\n';
}

Json recipe_uses_json(const std::vector<RecipeUse>& uses) {
  Json json = Json::array();
  for (const RecipeUse& use : uses)
    json.push_back({{"layer", use.layer},
                    {"operand", use.operand},
                    {"format", describe(use.trial.cast)},
                    {"bits_per_value", use.trial.bits},
                    {"sqnr_db", json_number(use.trial.errors.sqnr_db)},
                    {"saturation", use.trial.errors.saturation},
                    {"underflow", use.trial.errors.underflow},
                    {"hadamard", use.hadamard}});
  return json;
}

}  // namespace ng::cli
