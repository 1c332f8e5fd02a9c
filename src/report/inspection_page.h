// The page that `narrowgauge inspect --out` writes: what formats, and a recipe, make of tensors.
#pragma once

#include <string>
#include <vector>

#include "report/model_summary.h"
#include "report/page.h"
#include "tools/format_trial.h"
#include "tools/recipe_trial.h"

namespace ng::report {

/// A tensor and all that was found out about it.
struct InspectedTensor {
  std::string name, dtype;
  std::vector<int64_t> shape;
  std::string parameter;  ///< as canonical names call it; empty: not known
  TensorFacts facts;
  std::vector<RuleTrials> trials;  ///< by format
  std::vector<RecipeUse> uses;
};

struct Inspection {
  std::string name;  ///< what was inspected, as the user said
  ModelSummary summary;
  std::string chosen = {};  ///< which of its tensors were inspected, in words; empty: all
  std::string recipe;       ///< in words; empty: none was asked for
  std::vector<InspectedTensor> tensors;
};

[[nodiscard]] Page inspection_page(const Inspection& inspection);

/// One rule of one format over all matrices together (where there are none, all tensors), values in
/// units of their tensor's rms.
struct FormatTotal {
  FormatTrial of_all;       ///< its name, rule, bits, SQNR and what becomes zero or saturates
  double least_db = 0;      ///< of a single tensor
  std::string least_named;  ///< that tensor
};
/// By format its own rule, then the others; tensors without finite values other than 0 are left
/// out.
[[nodiscard]] std::vector<std::vector<FormatTotal>> totals_of(
    const std::vector<InspectedTensor>& tensors);

}  // namespace ng::report
