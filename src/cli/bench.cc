// narrowgauge bench: how fast this machine is at whole steps and at single kernels.
#include "cli/bench.h"

#include "cli/command.h"

namespace ng::cli {
namespace {

std::function<int()> declare(CLI::App& app) {
  app.require_subcommand(1);
  CLI::App* step = app.add_subcommand("step", "whole training steps on random tokens");
  CLI::App* kernels = app.add_subcommand("kernels", "casts of matrices, against a copy");
  for (CLI::App* command : {step, kernels}) command->fallthrough();  // --isa is the program's
  const auto bench_step = declare_bench_step(*step);
  const auto bench_kernels = declare_bench_kernels(*kernels);
  return [=] { return step->parsed() ? bench_step() : bench_kernels(); };
}

}  // namespace

extern const Command kBench;
const Command kBench{"bench", "speed and memory of training steps and of casts", declare};

}  // namespace ng::cli
