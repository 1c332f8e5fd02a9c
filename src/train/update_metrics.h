// What the updates of a step did, for metrics.
#pragma once

#include <span>

#include "base/json_fwd.h"
#include "model/model.h"

namespace ng {

/// {"blocks.0.attn.q.weight": {"changed": share of weights, "ratio": ‖Δ‖/‖Δ*‖, "projection":
/// ⟨Δ,Δ*⟩/‖Δ*‖², "cosine": ⟨Δ,Δ*⟩/(‖Δ‖·‖Δ*‖)}, ...}, of precision_aware "alpha_over_lr" too. Δ is
/// what the stored weights changed by, Δ* = lr·u what was asked; null where the norms say nothing.
/// Matrices only: vectors are FP32. `reports` by model.parameters(). [recipes.md §5, metrics of the
/// study]
[[nodiscard]] Json updates_json(Model& model, std::span<const UpdateReport> reports, double lr);

}  // namespace ng
