// Norms of the cpu backend: contracts in backend/backend.h.
#pragma once

#include "backend/backend.h"
#include "backend/cpu/workspace.h"

namespace ng::cpu {

void rms_norm(Workspace& workspace, View y, ConstView x, const float* gain, float eps,
              Compute compute);
void layer_norm(Workspace& workspace, View y, ConstView x, const float* gain, const float* bias,
                float eps, Compute compute);

void rms_norm_backward(Workspace& workspace, const NormBackward& args, Compute compute);
void layer_norm_backward(Workspace& workspace, const NormBackward& args, Compute compute);

}  // namespace ng::cpu
