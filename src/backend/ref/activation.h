// GELU and SwiGLU: each element in FP64, rounded once. [Hendrycks & Gimpel 2016; Shazeer 2020]
#pragma once

#include "backend/operations.h"

namespace ng::ref {

/// tanh: y = 0.5·x·(1 + tanh(sqrt(2/pi)·(x + 0.044715·x³))); erf: y = 0.5·x·(1 + erf(x/sqrt(2))).
void perform(const Gelu& op);
void perform(const GeluBackward& op);

/// y = silu(gate)·up, silu(g) = g / (1 + exp(-g)).
void perform(const Swiglu& op);
void perform(const SwigluBackward& op);

}  // namespace ng::ref
