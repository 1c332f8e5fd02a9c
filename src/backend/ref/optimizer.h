// What a training step does after the gradients are there.
#pragma once

#include "backend/operations.h"

namespace ng::ref {

void perform(const DecideStep& op);

}  // namespace ng::ref
