// Activations of the cpu backend: contracts in backend/operations.h.
#pragma once

#include "backend/cpu/workspace.h"
#include "backend/operations.h"

namespace ng::cpu {

/// tanh: x · σ(2u), u = sqrt(2/π)(x + 0.044715 x³), which is 0.5x(1 + tanh u) without cancellation;
/// erf: x · Φ(x).
void perform(Workspace& workspace, const Gelu& op);
void perform(Workspace& workspace, const GeluBackward& op);
void perform(Workspace& workspace, const Swiglu& op);
void perform(Workspace& workspace, const SwigluBackward& op);

}  // namespace ng::cpu
