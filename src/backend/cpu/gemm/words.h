// Panels of int8 operands whose rows lie sixteen side by side (packed.h).
//
// A word is four bytes: the values k ... k + 3 of one row, k in the lowest byte. Instructions that
// multiply uint8 by int8 need b's values as b + 128; the sum is then too large by 128 · Σ a, which
// the panel of a takes off beforehand: a start, -128 · Σ a of each segment and row.
//   a = (3, -1, 0, 2), b = (1, 4, -2, 5), so the product is 9
//   stored b: (129, 132, 126, 133); start: -128 · 4 = -512
//   -512 + 3 · 129 - 132 + 0 · 126 + 2 · 133 = 9
#pragma once

#include "backend/cpu/gemm/panel.h"

namespace ng::cpu {

/// The elements of one panel of a source of words, and their starts: words (four values along K)
/// stay as they are but for their shifts and, in a panel without starts (b's) of a biased source, a
/// bias of 128.
/// Sum::groups: panel.shifts are the factors 1, 2, 4 or 8 of every segment and row, which keep the
/// values within int8; where the panel has `factors` they go there and the values stay as they are.
void pack_words(const PanelSource& source, const PanelPlace& place, const Panel& panel);

/// The elements of one panel of an interleaved source as pairs of int16.
void pack_int16_pairs(const PanelSource& source, const PanelPlace& place, float* elements);

/// The elements of one panel of an interleaved source as FP32.
/// factors: as of pack_elements.
void pack_interleaved(const PanelSource& source, const PanelPlace& place, const float* factors,
                      float* elements);

}  // namespace ng::cpu
