// Norms of the cpu backend: contracts in backend/operations.h.
#pragma once

#include "backend/cpu/workspace.h"
#include "backend/operations.h"

namespace ng::cpu {

void perform(Workspace& workspace, const Norm& op);
void perform(Workspace& workspace, const NormBackward& op);

}  // namespace ng::cpu
