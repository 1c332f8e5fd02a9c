// What updates did, in figures: for metrics and for updates of one tensor.
#pragma once

#include <optional>
#include <span>

#include "base/json_fwd.h"
#include "model/model.h"

namespace ng {

/// One update by what the stored weight changed by, Δ, and what was asked, Δ* = lr·u. Absent: not
/// defined, as a cosine with nothing. [recipes.md §5, metrics]
struct UpdateFigures {
  int64_t step = 0;                                ///< updates done, this one included, of a file
  std::optional<double> update_norm, target_norm;  ///< ‖Δ‖, ‖Δ*‖
  std::optional<double> alpha_over_lr;             ///< of precision_aware
  std::optional<double> ratio;                     ///< ‖Δ‖ / ‖Δ*‖
  std::optional<double> projection;                ///< ⟨Δ, Δ*⟩ / ‖Δ*‖²
  std::optional<double> cosine;
  double changed = 0;  ///< share of the weights whose stored value is another
};

[[nodiscard]] UpdateFigures figures_of(const UpdateReport& report, const UpdatedWeight& weight,
                                       float lr);

/// {"blocks.0.attn.q.weight": {"changed": share of weights, "ratio": ‖Δ‖/‖Δ*‖, "projection":
/// ⟨Δ,Δ*⟩/‖Δ*‖², "cosine": ⟨Δ,Δ*⟩/(‖Δ‖·‖Δ*‖)}, ...}, of precision_aware "alpha_over_lr" too. Δ is
/// what the stored weights changed by, Δ* = lr·u what was asked; null where the norms say nothing.
/// Matrices only: vectors are FP32. `reports` by model.parameters(). [recipes.md §5, metrics of the
/// study]
[[nodiscard]] Json updates_json(Model& model, std::span<const UpdateReport> reports, double lr);

}  // namespace ng
