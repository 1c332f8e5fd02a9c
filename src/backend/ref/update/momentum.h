// Moments that move before the weights do. [update_operations.h]
#pragma once

#include "backend/operations.h"

namespace ng::ref {

void perform(const MoveBlockMoment& op);
void perform(const MoveMomentum& op);

}  // namespace ng::ref
