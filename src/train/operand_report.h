// The step's operand counters as shares, for metrics and messages.
#pragma once

#include "base/json.h"
#include "model/model.h"

namespace ng {

/// {"fprop.input": {"saturated": share, "flushed": share}, ...} over all layers; roles that count
/// nothing are left out.
[[nodiscard]] Json operand_shares(Model& model);

/// The same per layer: {"blocks.0.attn.q": {"fprop.input": {...}}, ...}.
[[nodiscard]] Json operand_shares_by_layer(Model& model);

}  // namespace ng
