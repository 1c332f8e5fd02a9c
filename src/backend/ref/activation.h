// GELU and SwiGLU: each element in FP64, rounded once. [Hendrycks & Gimpel 2016; Shazeer 2020]
#pragma once

#include "backend/backend.h"

namespace ng::ref {

/// tanh: y = 0.5·x·(1 + tanh(sqrt(2/pi)·(x + 0.044715·x³))); erf: y = 0.5·x·(1 + erf(x/sqrt(2))).
void gelu(View y, ConstView x, Gelu kind, Compute compute);
void gelu_backward(View dx, ConstView dy, ConstView x, Gelu kind, Compute compute);

/// y = silu(gate)·up, silu(g) = g / (1 + exp(-g)).
void swiglu(View y, ConstView gate, ConstView up, Compute compute);
void swiglu_backward(View dgate, View dup, ConstView dy, ConstView gate, ConstView up,
                     Compute compute);

}  // namespace ng::ref
