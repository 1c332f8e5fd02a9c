// Elementwise operations of the cpu backend: contracts in backend/operations.h.
#pragma once

#include "backend/cpu/workspace.h"
#include "backend/operations.h"

namespace ng::cpu {

void perform(Workspace& workspace, const Fill& op);
void perform(Workspace& workspace, const Clear& op);
void perform(Workspace& workspace, const Copy& op);
void perform(Workspace& workspace, const Add& op);
void perform(Workspace& workspace, const Combine& op);
void perform(Workspace& workspace, const Normalize& op);
void perform(Workspace& workspace, const FillNormal& op);

}  // namespace ng::cpu
