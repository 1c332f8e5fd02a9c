// What the operations of gemm_operations.h ask of their shapes, whichever backend runs them. All
// throw InternalError.
#pragma once

#include "backend/gemm_operations.h"

namespace ng {

void check_turn_back(const TurnBack& op);
void check_rounding_backward(const RoundingBackward& op);

}  // namespace ng
