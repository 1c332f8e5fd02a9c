// How much arithmetic training takes, for shares of the machine's peak.
#pragma once

#include <cstdint>

#include "model/model.h"

namespace ng {

/// Floating-point operations of GEMMs and attention per trained token, forward and backward, in
/// sequences of `length`: 6 per weight of every linear layer (the head's included, tied or not),
/// and 6 · length · heads · head_dim per block for causal attention, half of the full square; with
/// a window 2 · window - window² / length in place of the length.
/// Repeated forward passes (recompute) do not count.
[[nodiscard]] double flops_per_token(Model& model, int64_t length);

}  // namespace ng
