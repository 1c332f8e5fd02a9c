// The loss of the cpu backend: contracts in backend/backend.h.
#pragma once

#include "backend/backend.h"
#include "backend/cpu/workspace.h"

namespace ng::cpu {

void cross_entropy(Workspace& workspace, View logits, float* losses, TokenView targets,
                   const float* mask, float scale, Compute compute);
void cross_entropy_loss(Workspace& workspace, ConstView logits, float* losses, TokenView targets,
                        const float* mask, Compute compute);

}  // namespace ng::cpu
