// The decision of a step for backends whose memory the host can read: scalar arithmetic, so one
// definition serves them all.
#pragma once

#include "backend/operations.h"

namespace ng {

void decide_step_on_host(const DecideStep& op);

/// The largest magnitude that a moment holds: of its format, or of FP32 where scales follow.
[[nodiscard]] float largest_of_moment(const Stored& moment);

/// Whether the norm of the clipped gradients alone says that no state of this update overflows, in
/// which case nobody need look at its values. They do not in any step of a usual run. False says
/// nothing.
[[nodiscard]] bool surely_fits(const Update& op, const StepControl& control);

}  // namespace ng
