// Elementwise operations of the cpu backend: contracts in backend/backend.h.
#pragma once

#include "backend/backend.h"
#include "backend/cpu/workspace.h"

namespace ng::cpu {

void fill(Workspace& workspace, View x, float value);
void copy(Workspace& workspace, View y, ConstView x);
void add(Workspace& workspace, View y, ConstView a, ConstView b, Compute compute);
/// Element (row, col) takes the draw of element row · cols + col, whatever the stride.
void fill_normal(Workspace& workspace, View x, float deviation, const RandomKey& key);

}  // namespace ng::cpu
