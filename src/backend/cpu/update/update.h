// Updates on the cpu backend: contracts in backend/update_operations.h.
#pragma once

#include "backend/cpu/workspace.h"
#include "backend/operations.h"

namespace ng::cpu {

void perform(Workspace& workspace, const Store& op);
void perform(Workspace& workspace, const FindAmax& op);
void perform(Workspace& workspace, const StoreGradient& op);
void perform(Workspace& workspace, const MoveAutoScale& op);
void perform(Workspace& workspace, const CountLargest& op);
void perform(Workspace& workspace, const SumOfRanks& op);
void perform(Workspace& workspace, const Update& op);
void perform(Workspace& workspace, const FindUpdateMaxima& op);
void perform(Workspace& workspace, const MoveBlockMoment& op);
void perform(Workspace& workspace, const MoveMomentum& op);

}  // namespace ng::cpu
