// The definition of the GEMM: y (M, N) = alpha · A (M, K) · B (N, K)ᵀ + bias, to the bit.
// [formats.md §3.7, §4.3, §9; recipes.md §0]
//
// Notation. a_k, b_k: decoded element values without any scale (integers as i·2^-m). k runs over
// the padded length, ascending, never split. fl32: one rounding to FP32. A "blocked" operand has
// block kind tile (scales along K); the others are unscaled or have one scale per tensor or row.
//
// 1. Accumulation, by the pair of operands, first row that fits:
//
//   pair                               accumulator
//   ---------------------------------  -----------------------------------------------------------
//   neither blocked, both integer      exact integer sums over chunks of 131,072 along K, each
//   elements (int8, int4)              converted to FP32 once; acc = fl32(acc + chunk), from 0
//   neither blocked, otherwise         acc = fma(a_k, b_k, acc), from 0 (or from y: Into::carry)
//   one blocked                        the blocked operand is decoded, v_k = fl32(a_k · block
//                                      scale); acc = fma(v_k, b_k, acc), from 0
//   both mxfp4: E2M1, E8M0, c = 32     groups of 128 along K from k = 0, the last may be shorter:
//                                      group = Σ P_b in FP64, b ascending from 0, P_b =
//                                      S_b · 2^(ea + eb) in FP64 (exact; NaN where a scale is NaN);
//                                      acc = fl32(acc + fl32(group))
//   both blocked, E8M0 and/or E4M3     P_b = scalbn(fl32(S_b · fl32(ma · mb)), ea + eb) in FP32,
//   scales only                        acc = fl32(acc + P_b), b ascending
//   both blocked, an FP32 or pow2      acc = fma(S_b, fl32(sa · sb), acc), b ascending
//   scale on either side
//
//   SumOrder::tile32, any pair of factors_are_bf16(), in their place: as matrix tiles sum
//   (TDPBF16PS of Intel's SDM, volume 2), 32 of K at a time; K is filled up with products +0 · +0:
//     even = fma(a_k, b_k, even) over the even k of the 32, from +0;  odd likewise;
//     acc = fl32(acc + fl32(even + odd)), from 0 (or from y: Into::carry)
//   with a_k, b_k the elements, of blocked operands v_k. Subnormals are zeros of their sign, read
//   and made, here and only here [base/flush.h]. At the end -0 becomes +0, so that signs of zeros
//   in operands do not show.
//
//   Blocks b have the smaller of the two block lengths along K (it must divide the larger).
//   S_b = FP32 fma chain from 0 over the block, k ascending (exact for FP4, FP6 and MXINT8 pairs).
//   The scale of a block is m · 2^e: E8M0 has m = 1, e = code - 127; E4M3 has m = its value, e = 0;
//   sa, sb are the decode multipliers as FP32 numbers (2^e, or the stored scale). E4M3 scales under
//   a tensor_block [r, c] are such, too: fl32(scale · s_t of its region) is the block's FP32 scale.
//   scalbn rounds once, to nearest even, where the result leaves FP32's range, overflow to Inf.
//
// 2. Factor, applied once: acc = fl32(acc · factor),
//      factor = fl32(fl32(ta · tb) · alpha),  alpha = fl32(h / (pa · pb)) with pa · pb in FP64,
//    ta, tb: what is left to the end of each operand: its tensor or row scale (decode multiplier),
//    NVFP4's s_t of the whole or of its row, else 1; pa, pb: prescales; h = 1/(g·c_g²) of the
//    Hadamard transform: 1 for g = 0, 16, 64 and 1/2 for g = 32, 128.
//
// 3. Epilogue: t = fl32(acc + bias[n]) where there is a bias, which is read as it is; Into::add:
//    t = fl32(y + t); round == Compute::bf16: t rounded to BF16, nearest even, overflow to Inf; y =
//    t, rounded so to what it is stored as.
//    Into::carry only for unscaled FP32, BF16, FP16 pairs with factor 1: the chain starts from y.
#pragma once

#include "backend/operations.h"

namespace ng::ref {

/// By the rules above. Both operands were prepared by ng::ref with the same k_padded and Hadamard
/// transform; a->spec.rows == y.rows, b->spec.rows == y.cols.
void perform(const Gemm& op);

}  // namespace ng::ref
