// Embedding and rotary position tables of the cpu backend: contracts in backend/operations.h.
#pragma once

#include "backend/cpu/workspace.h"
#include "backend/operations.h"

namespace ng::cpu {

void perform(Workspace& workspace, const Embed& op);
void perform(Workspace& workspace, const EmbedBackward& op);
void perform(Workspace& workspace, const RopeTable& op);
void perform(Workspace& workspace, const Rope& op);

}  // namespace ng::cpu
