// The loss of the cpu backend: contracts in backend/operations.h.
#pragma once

#include "backend/cpu/workspace.h"
#include "backend/operations.h"

namespace ng::cpu {

void perform(Workspace& workspace, const CrossEntropy& op);
void perform(Workspace& workspace, const CrossEntropyLoss& op);

}  // namespace ng::cpu
