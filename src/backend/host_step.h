// The decision of a step for backends whose memory the host can read: scalar arithmetic, so one
// definition serves them all.
#pragma once

#include "backend/operations.h"

namespace ng {

void decide_step_on_host(const DecideStep& op);

}  // namespace ng
