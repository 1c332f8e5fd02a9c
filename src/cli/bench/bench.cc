// narrowgauge bench: how fast this machine is at whole steps, GEMMs, casts and updates.
#include "cli/bench/bench.h"

#include "base/isa.h"
#include "base/json.h"
#include "base/version.h"
#include "speed/machine.h"

namespace ng::cli {

Json machine_json(Threads threads) {
  return {{"program", fmt::format("narrowgauge {}", version())},
          {"cpu", cpu_model()},
          {"isa", name_of(current_isa())},
          {"threads", threads.count}};
}

std::string machine_text(Threads threads) {
  return fmt::format("{}, {}, {} threads", cpu_model(), name_of(current_isa()), threads.count);
}

const Command kBench{
    "bench", "speed of training steps, GEMMs, casts and updates",
    [](Flags flags) {
      const Command below[] = {kBenchStep, kBenchGemm, kBenchKernels, kBenchUpdate};
      return with_commands(flags, "bench", below);
    },
    true};

}  // namespace ng::cli
