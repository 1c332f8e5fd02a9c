// narrowgauge bench: how fast this machine is at whole steps, GEMMs, casts and updates.
#include "cli/bench/bench.h"

#include "cli/command.h"

namespace ng::cli {
namespace {

std::function<int()> declare(Flags flags) {
  const Flags step = flags.subcommand("step", "whole training steps on random tokens");
  const Flags gemm = flags.subcommand("gemm", "the GEMM in each format, against FP32");
  const Flags kernels = flags.subcommand("kernels", "casts of matrices, against a copy");
  const Flags update = flags.subcommand("update", "updates of weights by rule and storage");
  const auto bench_step = declare_bench_step(step);
  const auto bench_gemm = declare_bench_gemm(gemm);
  const auto bench_kernels = declare_bench_kernels(kernels);
  const auto bench_update = declare_bench_update(update);
  return [=] {
    if (step.is_named()) return bench_step();
    refuse_ranks("bench");
    if (gemm.is_named()) return bench_gemm();
    return kernels.is_named() ? bench_kernels() : bench_update();
  };
}

}  // namespace

extern const Command kBench;
const Command kBench{"bench", "speed of training steps, GEMMs, casts and updates", declare, true};

}  // namespace ng::cli
