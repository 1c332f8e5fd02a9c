// One step of one tensor: optimizer, rounding, states. [update_operations.h]
#pragma once

#include "backend/operations.h"

namespace ng::ref {

void perform(const Update& op);
void perform(const CheckUpdate& op);

}  // namespace ng::ref
