// RMSNorm and LayerNorm over the columns of each row.
#pragma once

#include <vector>

#include "backend/backend.h"

namespace ng::ref {

/// y = x · rstd · gain, rstd = 1/sqrt(mean(x²) + eps). Statistics in FP64, rounded once.
void rms_norm(View y, ConstView x, const float* gain, float eps, Compute compute);

/// With h = x·rstd and g = dy·gain: dx = dresidual + rstd·(g - h·mean(g·h)); dgain += Σ_t dy·h.
void rms_norm_backward(const NormBackward& args, Compute compute, std::vector<double>& scratch);

/// y = (x - mean)·rstd·gain + bias, rstd = 1/sqrt(mean((x - mean)²) + eps); bias may be null.
void layer_norm(View y, ConstView x, const float* gain, const float* bias, float eps,
                Compute compute);

/// With h = (x - mean)·rstd and g = dy·gain: dx = dresidual + rstd·(g - mean(g) - h·mean(g·h));
/// dgain += Σ_t dy·h; dbias += Σ_t dy where non-null.
void layer_norm_backward(const NormBackward& args, Compute compute, std::vector<double>& scratch);

}  // namespace ng::ref
