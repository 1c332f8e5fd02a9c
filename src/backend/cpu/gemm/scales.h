// Block scales into panels.
//
// An operand keeps them row by row, [rows][blocks]; tiles multiply by those of one block and many
// rows, so a panel has them the other way round, [segments][width]. Of nvfp4 with k = 768 a row has
// 48 scales, one for 16 values; a right panel of 48 rows gets 48 · 48 · 4 bytes = 9 KiB.
//
// ScaleUse::groups: mxfp4's four blocks of 32 share the smallest of their scales where the others
// are at most 8 times it, and their integers are shifted. Scales 2, 4, 2, 16 of a row become 2, 2,
// 2, 2 and the shifts 1, 2, 1, 8; with 2, 4, 2, 32 the group is not aligned: block by block.
#pragma once

#include "backend/cpu/gemm/panel.h"

namespace ng::cpu {

/// Writes panel.scales and panel.plain (ScaleUse::segments and groups) and panel.shifts (decoded
/// and groups) of a panel, which has at least one value along K.
void pack_scales(const PanelSource& source, const PanelPlace& place, const Panel& panel);

}  // namespace ng::cpu
