// Elements into panels: read from any layout, rounded or widened to FP32, transposed.
#pragma once

#include "backend/cpu/gemm/panel.h"

namespace ng::cpu {

/// The elements of `run.count` panels from `place` on; more than one only of transposed sources.
/// factors: [blocks along K that place touches][width], multiplied in; or null.
void pack_elements(const PanelSource& source, const PanelPlace& place, const float* factors,
                   const PanelRun& run);

}  // namespace ng::cpu
