// Block scales into panels.
#pragma once

#include "backend/cpu/gemm/panel.h"

namespace ng::cpu {

/// Writes panel.scales and panel.plain (ScaleUse::segments and groups) and panel.shifts (decoded
/// and groups) of a panel, which has at least one value along K.
void pack_scales(const PanelSource& source, const PanelPlace& place, const Panel& panel);

}  // namespace ng::cpu
