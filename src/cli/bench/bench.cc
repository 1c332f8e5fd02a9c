// narrowgauge bench: how fast this machine is at whole steps, GEMMs, casts and updates.
#include "cli/bench/bench.h"

#include "base/isa.h"
#include "base/json.h"
#include "base/machine.h"
#include "base/version.h"

namespace ng::cli {

Json machine_json(Threads threads) {
  return {{"program", fmt::format("narrowgauge {}", version())},
          {"cpu", cpu_model()},
          {"isa", name_of(current_isa())},
          {"threads", threads.count}};
}

Json machine_json(const Backend& backend, Threads threads) {
  Json json = machine_json(threads);
  if (!backend.device_name().empty()) json["device"] = backend.device_name();
  return json;
}

const Command kBench{
    "bench", "speed of training steps, GEMMs, casts and updates",
    [](Flags flags) {
      const Command below[] = {kBenchStep, kBenchGemm, kBenchKernels, kBenchUpdate};
      return with_commands(flags, "bench", below);
    },
    true};

}  // namespace ng::cli
