// Whether this CPU's dot products of BF16 pairs sum as our GEMMs are defined.
#pragma once

namespace ng {

/// Whether `vdpbf16ps`, acc + a1·b1 + a0·b0, gives the bits of fma(a0, b0, fma(a1, b1, acc)) in
/// FP32 in x86's flush modes, where subnormals are zeros, read and made. Its manual leaves room and
/// CPUs differ, so it is asked: ties, cancellation, overflow, zeros, subnormals, infinities and NaN
/// (any NaN is as good as another). Only for a CPU that has AVX512_BF16; takes about a millisecond.
[[nodiscard]] bool bf16_dots_are_fmas();

}  // namespace ng
