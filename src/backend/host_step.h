// The decision of a step for backends whose memory the host can read: scalar arithmetic, so one
// definition serves them all.
#pragma once

#include "backend/backend.h"

namespace ng {

/// Backend::decide_step on host memory.
void decide_step_on_host(StepControl* control, const double* sum_of_squares, double clip,
                         const OperandStats* stats, int64_t stats_count);

}  // namespace ng
