// The subcommands of narrowgauge bench: each declares its flags and returns what to do.
#pragma once

#include <CLI/App.hpp>
#include <functional>

namespace ng::cli {

[[nodiscard]] std::function<int()> declare_bench_step(CLI::App& app);
[[nodiscard]] std::function<int()> declare_bench_gemm(CLI::App& app);
[[nodiscard]] std::function<int()> declare_bench_kernels(CLI::App& app);
[[nodiscard]] std::function<int()> declare_bench_update(CLI::App& app);

}  // namespace ng::cli
