// The end of a training step on the cpu backend: contracts in backend/backend.h.
#pragma once

#include "backend/backend.h"
#include "backend/cpu/workspace.h"

namespace ng::cpu {

void decide_step(StepControl* control, const double* sum_of_squares, double clip,
                 const OperandStats* stats, int64_t stats_count);
void adamw(Workspace& workspace, const AdamW& args);

}  // namespace ng::cpu
