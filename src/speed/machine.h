// What the machine can do.
#pragma once

#include "base/threads.h"

namespace ng {

/// Most FP32 multiply-adds per second that `threads` get from the instruction set in use, in FLOP/s
/// (an FMA counts 2): the GEMM's microkernel on panels in the L1 cache. Takes 0.02 s, on
/// a busy machine 0.1 s.
[[nodiscard]] double measured_peak_flops(Threads threads);

/// The same of BF16 dot products; 0 where the instruction set in use has none.
[[nodiscard]] double measured_peak_bf16_flops(Threads threads);

/// The same of int8 dot products, in operations (a product and its sum count 2); 0 where the
/// instruction set in use has none.
[[nodiscard]] double measured_peak_dot_ops(Threads threads);

}  // namespace ng
