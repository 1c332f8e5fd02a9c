// Products of narrow numbers, one output at a time: the dot of two blocks and the general dot of
// two rows, to the bit. The definition that GEMMs follow; not a fast one. [formats.md §3.7, §4.3,
// §9 "Accumulation rule", A "General dot"]
#pragma once

#include <cstdint>
#include <span>

#include "format/operand.h"

namespace ng {

/// Codes that share a scale. value_i = decode(codes[i]) · scale.
struct NarrowBlock {
  const ElementFormat* element = nullptr;
  std::span<const uint16_t> codes;
  ScaleKind kind = ScaleKind::e8m0;  ///< e8m0: `scale` is a power of two or NaN
  float scale = 1;                   ///< decode multiplier
};

/// Dot of two blocks of one length: fl32(S · fl32(ma · mb)) · 2^(ea + eb), rounded once more only
/// where it leaves FP32's normal range (overflow: Inf). A scale is m · 2^e: E8M0 has m = 1, so MX
/// blocks give 2^(ca + cb - 254) · Σ a_i b_i; all others e = 0. NaN where a scale is NaN.
/// S = Σ a_i · b_i is one FP32 chain of fused multiply-adds from 0, i ascending: exact for FP4, FP6
/// and MXINT8 pairs.
[[nodiscard]] float block_dot(const NarrowBlock& a, const NarrowBlock& b);

/// A row of an operand along K. Blocks that the codes do not fill are padded with +0.
struct NarrowRow {
  const ElementFormat* element = nullptr;
  std::span<const uint16_t> codes;  ///< [K]
  ScaleKind kind = ScaleKind::none;
  int64_t block = 0;              ///< values per scale; 0: one scale for the row, or none
  std::span<const float> scales;  ///< decode multipliers: [⌈K / block⌉], [1], or none
  float tensor_scale = 1;         ///< second level: NVFP4's s_t
  float prescale = 1;             ///< what values were multiplied by after scaling; undone
  int hadamard = 0;               ///< size of the transform along K, 0: none; undone, both alike

  /// The scale of value k.
  [[nodiscard]] float scale(int64_t k) const;
};

/// General dot of two rows of one length K: the sum over their blocks, in the order and with the
/// roundings that backend/ref/gemm.h lists for every pair of operands, then times
/// fl32(fl32(ta · tb) · fl32(h / (pa · pb))), h = 1 / (g · c_g²) of the transform. K = 0 gives 0.
/// Blocks of different lengths are taken by the smaller, which must divide the larger.
[[nodiscard]] float general_dot(const NarrowRow& a, const NarrowRow& b);

}  // namespace ng
