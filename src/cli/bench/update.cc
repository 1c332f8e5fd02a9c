// narrowgauge bench update: updates of weights by rule and storage against the memory's bandwidth.
#include <utility>

#include "base/json.h"
#include "base/machine.h"
#include "cli/bench/bench.h"
#include "cli/shared_flags.h"
#include "speed/update_speed.h"

namespace ng::cli {
namespace {

struct BenchUpdateArgs {
  MachineFlags machine;
  UpdateSpeedRun run;
  bool json = false;
};

/// A weight that lies with its states in the L2 cache of each thread, and one that only memory
/// holds.
std::vector<Footprint> footprints_of(Threads threads) {
  return {{"cache", "the L2 cache", 32 * threads.count, 768},
          {"memory", "memory", 4096 * threads.count, 2048}};
}

Json json_of(const UpdateSpeeds& speeds) {
  Json updates = Json::array();
  for (const UpdateSpeed& speed : speeds.updates)
    updates.push_back({{"update", speed.name},
                       {"elements_per_second", speed.elements_per_second},
                       {"bytes_per_element", speed.bytes_per_element},
                       {"bytes_per_second", speed.bytes_per_second()},
                       {"share_of_bandwidth", speed.bytes_per_second() / speeds.bandwidth()},
                       {"time_over_fp32",  // of AdamW
                        speeds.updates.front().elements_per_second / speed.elements_per_second}});
  return {{"copy_bytes_per_second", speeds.copy.bytes_per_second()},
          {"add_bytes_per_second", speeds.add.bytes_per_second()},
          {"bytes_per_second", speeds.bandwidth()},
          {"updates", std::move(updates)}};
}

constexpr Column kUpdateColumns[] = {{"update", "update"},
                                     {"G elements/s", "elements_per_second", "{:.3f}", 1e-9},
                                     {"B/element", "bytes_per_element", "{:.2f}"},
                                     {"GB/s", "bytes_per_second", "{:.1f}", 1e-9},
                                     {"% of bandwidth", "share_of_bandwidth", "{:.0f}", 100},
                                     {"time / fp32", "time_over_fp32", "{:.2f}"}};

void bench_update(const BenchUpdateArgs& args) {
  const Threads threads = args.machine.use();
  Json json = machine_json(threads);
  bool is_first = true;
  for (const Footprint& footprint : footprints_of(threads)) {
    UpdateSpeedRun run = args.run;
    run.threads = threads;
    run.rows = footprint.rows;
    run.cols = footprint.cols;
    const UpdateSpeeds speeds = update_speeds(run);
    const Json& found = json[footprint.name] = json_of(speeds);
    if (args.json) continue;
    if (std::exchange(is_first, false))  // not before a filter that matches nothing was refused
      print("{}\n", machine_text(threads));
    print(
        "\n{}: {} x {} weights; bandwidth of {}: {:.1f} GB/s (copy {:.1f}, addition in place "
        "{:.1f})\n{}",
        footprint.name, run.rows, run.cols, footprint.holds, speeds.bandwidth() * 1e-9,
        speeds.copy.bytes_per_second() * 1e-9, speeds.add.bytes_per_second() * 1e-9,
        table_of(found["updates"], kUpdateColumns));
    flush_output();
  }
  if (args.json) print_json(json);
}

constexpr const char* kBenchUpdateFooter =
    R"(AdamW where nothing else is said; moments FP32. What the weight is stored as, then the rule
by which a step is rounded into it. B/element: what must be read and written once, weight,
carry, master, moments and gradient; GB/s count that, however often an update passes over
it. % of bandwidth: of the faster of a copy and an addition of as much memory in FP32.
time / fp32: against AdamW on FP32 weights.)";

void declare_bench_update(Flags flags, BenchUpdateArgs& args) {
  flags.option("--filter TEXT", args.run.filter, "only updates whose names contain this");
  flags.setting("--rounds", args.run.rounds, "of each update; the best counts").range(1, 1000);
  args.machine.declare_threads(flags);
  flags.flag("--json", args.json, "print one JSON object");
  flags.footer(kBenchUpdateFooter);
}

}  // namespace

const Command kBenchUpdate{"update", "updates of weights by rule and storage",
                           with_flags<BenchUpdateArgs, declare_bench_update, bench_update>};

}  // namespace ng::cli
