// The step's operand counters as shares, for metrics and messages.
#pragma once

#include "base/json_fwd.h"
#include "model/model.h"
#include "train/operand_error.h"

namespace ng {

/// {"fprop.input": {"saturated": share, "flushed": share}, ...} over all layers; roles that count
/// nothing are left out.
[[nodiscard]] Json operand_shares(std::span<const OperandStats> counted);

/// The same per layer: {"blocks.0.attn.q": {"fprop.input": {...}}, ...}, each with its "sqnr_db"
/// where that is finite. A layer that shares an operand with the one before has its own SQNR, but
/// no shares: they are counted once.
[[nodiscard]] Json operand_shares_by_layer(std::span<const OperandStats> counted,
                                           const Model& model, const OperandErrors& errors);

/// What casts of noisy weights lost, over all layers with noise; no values where it is not counted.
[[nodiscard]] OperandStats lost_of_noisy_weights(std::span<const OperandStats> counted,
                                                 const Model& model);

}  // namespace ng
