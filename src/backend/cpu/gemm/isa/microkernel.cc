#include "backend/cpu/gemm/isa/microkernel.h"

#include <algorithm>
#include <array>

namespace ng::cpu {
namespace {

constexpr ChainKernels kScalar = {chain_scalar, scaled_scalar};
constexpr ChainKernels kAvx2 = {chain_avx2, scaled_avx2};
constexpr ChainKernels kAvx512 = {chain_avx512, scaled_avx512};
constexpr ChainKernels kBf16Avx512 = {chain_avx512bf16, scaled_avx512bf16};
constexpr DotKernels kInt8Scalar = {dot_scalar, dot_scaled_scalar};
constexpr DotKernels kInt8AvxVnni = {dot_avxvnni, dot_scaled_avxvnni};
constexpr DotKernels kInt8Avx512Vnni = {dot_avx512vnni, dot_scaled_avx512vnni,
                                        dot_scaled_by_lookup_avx512vnni};
constexpr DotKernels kInt16Avx2 = {int16_dot_avx2, int16_dot_scaled_avx2};
constexpr DotKernels kInt16AvxVnni = {int16_dot_avxvnni, int16_dot_scaled_avxvnni};
constexpr DotKernels kInt16Avx512Vnni = {int16_dot_avx512vnni, int16_dot_scaled_avx512vnni};
constexpr DotKernels kShortAvx2 = {short_dot_avx2, short_dot_scaled_avx2};
constexpr DotKernels kShortAvx512 = {short_dot_avx512, short_dot_scaled_avx512};

// 24 (AVX2: 12) accumulators hide the latency of two FMA units; 8 and 48 divide the usual widths.
// On Zen 5, 8x48, 9x48, 12x32 and 14x32 all reach 97 to 99 % of the FMA peak. AVX2 takes its rows
// in parts of four or two, which fit the registers: eight halve what is read from the L2 cache.
constexpr std::array<Microkernel, 7> kMicrokernels = {
    {{Isa::scalar, 8, 8, kScalar, {}, kInt8Scalar, {}, {}},
     {Isa::avx2, 8, 24, kAvx2, {}, {}, kShortAvx2, kInt16Avx2},
     {Isa::avxvnni, 8, 24, kAvx2, {}, kInt8AvxVnni, {}, kInt16AvxVnni},
     {Isa::avx512, 8, 48, kAvx512, {}, {}, kShortAvx512, {}},
     {Isa::avx512vnni, 8, 48, kAvx512, {}, kInt8Avx512Vnni, {}, kInt16Avx512Vnni},
     {Isa::avx512bf16, 8, 48, kAvx512, kBf16Avx512, kInt8Avx512Vnni, {}, kInt16Avx512Vnni},
     {Isa::avx512amx, 8, 48, kAvx512, {}, kInt8Avx512Vnni, {}, kInt16Avx512Vnni}}};

}  // namespace

const Microkernel& current_microkernel() {
  const Isa isa = current_isa();
  return *std::find_if(kMicrokernels.begin(), kMicrokernels.end(),
                       [&](const Microkernel& row) { return row.isa == isa; });
}

}  // namespace ng::cpu
