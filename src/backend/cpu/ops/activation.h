// Activations of the cpu backend: contracts in backend/backend.h.
#pragma once

#include "backend/backend.h"
#include "backend/cpu/workspace.h"

namespace ng::cpu {

/// tanh: x · σ(2u), u = sqrt(2/π)(x + 0.044715 x³), which is 0.5x(1 + tanh u) without cancellation;
/// erf: x · Φ(x).
void gelu(Workspace& workspace, View y, ConstView x, Gelu kind, Compute compute);
void gelu_backward(Workspace& workspace, View dx, ConstView dy, ConstView x, Gelu kind,
                   Compute compute);
void swiglu(Workspace& workspace, View y, ConstView gate, ConstView up, Compute compute);
void swiglu_backward(Workspace& workspace, View dgate, View dup, ConstView dy, ConstView gate,
                     ConstView up, Compute compute);

}  // namespace ng::cpu
