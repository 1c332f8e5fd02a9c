// narrowgauge bench: how fast this machine is at whole steps, GEMMs, casts and updates.
#include "cli/bench/bench.h"

#include "cli/command.h"

namespace ng::cli {
namespace {

std::function<int()> declare(CLI::App& app) {
  app.require_subcommand(1);
  CLI::App* step = app.add_subcommand("step", "whole training steps on random tokens");
  CLI::App* gemm = app.add_subcommand("gemm", "the GEMM in each format, against FP32");
  CLI::App* kernels = app.add_subcommand("kernels", "casts of matrices, against a copy");
  CLI::App* update = app.add_subcommand("update", "updates of weights by rule and storage");
  for (CLI::App* command : {step, gemm, kernels, update})
    command->fallthrough();  // --isa is the program's
  const auto bench_step = declare_bench_step(*step);
  const auto bench_gemm = declare_bench_gemm(*gemm);
  const auto bench_kernels = declare_bench_kernels(*kernels);
  const auto bench_update = declare_bench_update(*update);
  return [=] {
    if (step->parsed()) return bench_step();
    refuse_ranks("bench");
    if (gemm->parsed()) return bench_gemm();
    return kernels->parsed() ? bench_kernels() : bench_update();
  };
}

}  // namespace

extern const Command kBench;
const Command kBench{"bench", "speed of training steps, GEMMs, casts and updates", declare, true};

}  // namespace ng::cli
