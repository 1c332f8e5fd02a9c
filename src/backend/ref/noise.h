// Noise on weights, by the definition.
#pragma once

#include "backend/operations.h"

namespace ng::ref {

void perform(const AddNoise& op);
void perform(const AddNoiseBackward& op);
void perform(const QuantizeByProxy& op);
void perform(const FinishNoiseGradient& op);

}  // namespace ng::ref
