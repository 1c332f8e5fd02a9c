// RMSNorm and LayerNorm over the columns of each row.
#pragma once

#include "backend/ref/number.h"

namespace ng::ref {

/// rms: y = x · rstd · gain, rstd = 1/sqrt(mean(x²) + eps). layer: y = (x - mean)·rstd·gain + bias,
/// rstd = 1/sqrt(mean((x - mean)²) + eps). Statistics in FP64, rounded once.
void perform(const Norm& op);

/// With h = (x - mean)·rstd and g = dy·gain: dx = dresidual + rstd·(g - mean(g) - h·mean(g·h));
/// dgain += Σ_t dy·h; dbias += Σ_t dy where there is one. rms takes mean and mean(g) for 0.
void perform(const NormBackward& op, Scratch& scratch);

}  // namespace ng::ref
