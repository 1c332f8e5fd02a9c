// Noise on weights of the cpu backend: contracts in backend/noise_operations.h. Noise that is given
// instead of drawn goes ref's way, on one thread: no training does that.
#pragma once

#include "backend/cpu/workspace.h"
#include "backend/operations.h"

namespace ng::cpu {

void perform(Workspace& workspace, const AddNoise& op);
void perform(Workspace& workspace, const AddNoiseBackward& op);
void perform(Workspace& workspace, const RoundByBits& op);
void perform(Workspace& workspace, const CountCast& op);
void perform(Workspace& workspace, const QuantizeByProxy& op);
void perform(Workspace& workspace, const FinishNoiseGradient& op);

}  // namespace ng::cpu
