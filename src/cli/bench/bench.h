// The subcommands of narrowgauge bench: each declares its flags and returns what to do.
#pragma once

#include <functional>

#include "cli/flags.h"

namespace ng::cli {

[[nodiscard]] std::function<int()> declare_bench_step(Flags flags);
[[nodiscard]] std::function<int()> declare_bench_gemm(Flags flags);
[[nodiscard]] std::function<int()> declare_bench_kernels(Flags flags);
[[nodiscard]] std::function<int()> declare_bench_update(Flags flags);

}  // namespace ng::cli
