#include "base/json.h"
#include "cli/output.h"
#include "cli/tensors/inspect.h"
#include "cli/tensors/tensor_text.h"

namespace ng::cli {

std::string recipe_uses_text(const std::vector<RecipeUse>& uses) {
  if (uses.empty()) return "";
  Table table({"by the recipe", "operand", "format", "SQNR dB", "saturated", "to zero"}, 3);
  for (const RecipeUse& use : uses)
    table.row({use.layer, use.operand, describe(use.trial.cast),
               decibel_text(use.trial.errors.sqnr_db), percent_text(use.trial.errors.saturation),
               percent_text(use.trial.errors.underflow)});
  return table.text() + '\n';
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
