// Products of narrow numbers, to the bit: the dot of two blocks and of two rows by the scalar
// definition, for checking others, and the fast product of matrices, which has the same bits.
// Source: OCP Microscaling Formats (MX) v1.0, 6.1 "Dot", 6.2 "DotGeneral".
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "narrowgauge/export.h"
#include "narrowgauge/formats.h"
#include "narrowgauge/quantize.h"

namespace narrowgauge {

/// Codes that share a scale.
struct CodedBlock {
  Element element;
  std::span<const uint16_t> codes;
  ScaleKind kind = ScaleKind::e8m0;  ///< e8m0: `scale` is a power of two or NaN
  float scale = 1;                   ///< decode multiplier
};

/// Dot of two MX blocks, 2^(ca + cb - 254) · Σ a_i · b_i, and of NVFP4 blocks, sa · sb · Σ a_i ·
/// b_i: Σ is one FP32 chain of fused multiply-adds, i ascending (exact for FP4, FP6 and MXINT8),
/// then one rounding where the result leaves FP32's normal range. NaN where a scale is NaN. Throws
/// Error where lengths differ or a code is none of its element.
[[nodiscard]] NARROWGAUGE_API float block_dot(const CodedBlock& a, const CodedBlock& b);

/// General dot of row i of operand a with row j of operand b (columns, where along is rows), of one
/// length K: contributions of blocks added in FP32 in ascending order; of two mxfp4 operands in
/// FP64 within groups of 128 values, FP32 across. Scales of rows and tensors, prescales and the
/// transform are applied or undone once, at the end. Throws Error where K or the transform differs,
/// for rows that are none, for blocks of which the larger is no multiple of the smaller, and for
/// affine integers.
[[nodiscard]] NARROWGAUGE_API float dot(const Quantized& a, int64_t i, const Quantized& b,
                                        int64_t j);

/// y (M, N), row by row: y[i][j] = dot(a, i, b, j), on the GEMM of the program's fast backend. Some
/// operands it cannot hold: unsigned elements, E8M0 elements, integers with their most negative
/// code, block scales that are no values of the scale's format. With those every output is computed
/// by dot, which takes hundreds of times as long. Throws Error as dot.
[[nodiscard]] NARROWGAUGE_API std::vector<float> multiply(const Quantized& a, const Quantized& b,
                                                          int threads = 1);

}  // namespace narrowgauge
