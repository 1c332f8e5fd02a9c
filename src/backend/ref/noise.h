// Noise on weights, by the definition.
#pragma once

#include "backend/operations.h"

namespace ng::ref {

void perform(const AddNoise& op);
void perform(const AddNoiseBackward& op);
void perform(const QuantizeByProxy& op);
void perform(const FinishNoiseGradient& op);
void perform(const RoundByBits& op);
void perform(const CountCast& op);
/// Row `i` of its blocks.
void round_blocks(const RoundByBits& op, int64_t i);
/// Counters of some rows.
[[nodiscard]] OperandStats counts_of(const CountCast& op, int64_t first, int64_t count);

}  // namespace ng::ref
