// The end of a training step on the cpu backend: contracts in backend/backend.h.
#pragma once

#include "backend/backend.h"
#include "backend/cpu/workspace.h"

namespace ng::cpu {

void adamw(Workspace& workspace, const AdamW& args);

}  // namespace ng::cpu
