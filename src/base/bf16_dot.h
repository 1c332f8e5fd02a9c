// Whether this CPU's dot products of BF16 pairs sum as our GEMMs are defined.
#pragma once

namespace ng {

/// Whether `vdpbf16ps`, acc + a1·b1 + a0·b0, gives the bits of fma(a0, b0, fma(a1, b1, acc)) in
/// FP32. Its manual leaves room and CPUs differ, so it is asked: ties, cancellation, overflow,
/// zeros, infinities and NaN (any NaN is as good as another). Not where values, products or sums
/// are subnormal: the instruction takes those for zeros. Only for a CPU that has AVX512_BF16; takes
/// about a millisecond.
[[nodiscard]] bool bf16_dots_are_fmas();

}  // namespace ng
