// One step of one tensor: optimizer, rounding, states. [update_operations.h]
#pragma once

#include <vector>

#include "backend/operations.h"

namespace ng::ref {

/// Second moments before the step: one for each weight, also where blocks of rows have one.
[[nodiscard]] std::vector<float> second_moments(const Update& op);

void perform(const Update& op);
void perform(const FindUpdateMaxima& op);
void perform(const CheckUpdate& op);

}  // namespace ng::ref
