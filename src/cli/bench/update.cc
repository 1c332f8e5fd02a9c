// narrowgauge bench update: updates of weights by rule and storage against the memory's bandwidth.
#include "base/isa.h"
#include "base/json.h"
#include "base/version.h"
#include "cli/bench/bench.h"
#include "cli/output.h"
#include "cli/shared_flags.h"
#include "speed/machine.h"
#include "speed/update_speed.h"

namespace ng::cli {
namespace {

struct Args {
  MachineFlags machine;
  UpdateSpeedRun run;
  bool json = false;
};

/// A weight that lies with its states in the L2 cache of each thread, and one that only memory
/// holds.
struct Footprint {
  const char* name;
  const char* holds;
  int64_t rows_per_thread;
  int64_t cols;
};
constexpr Footprint kFootprints[] = {{"cache", "the L2 cache", 32, 768},
                                     {"memory", "memory", 4096, 2048}};

double share_of_bandwidth(const UpdateSpeed& speed, const UpdateSpeeds& all) {
  return speed.bytes_per_second() / all.bandwidth();
}

/// Its time over that of AdamW in FP32.
double time_over_fp32(const UpdateSpeed& speed, const UpdateSpeeds& all) {
  return all.updates.front().elements_per_second / speed.elements_per_second;
}

Json footprint_json(const UpdateSpeeds& speeds) {
  Json updates = Json::array();
  for (const UpdateSpeed& speed : speeds.updates)
    updates.push_back({{"update", speed.name},
                       {"elements_per_second", speed.elements_per_second},
                       {"bytes_per_element", speed.bytes_per_element},
                       {"bytes_per_second", speed.bytes_per_second()},
                       {"share_of_bandwidth", share_of_bandwidth(speed, speeds)},
                       {"time_over_fp32", time_over_fp32(speed, speeds)}});
  return {{"copy_bytes_per_second", speeds.copy.bytes_per_second()},
          {"add_bytes_per_second", speeds.add.bytes_per_second()},
          {"bytes_per_second", speeds.bandwidth()},
          {"updates", std::move(updates)}};
}

std::string table_of(const UpdateSpeeds& speeds) {
  Table table({"update", "G elements/s", "B/element", "GB/s", "% of bandwidth", "time / fp32"});
  for (const UpdateSpeed& speed : speeds.updates)
    table.row({speed.name, fmt::format("{:.3f}", speed.elements_per_second * 1e-9),
               fmt::format("{:.2f}", speed.bytes_per_element),
               fmt::format("{:.1f}", speed.bytes_per_second() * 1e-9),
               fmt::format("{:.0f}", 100 * share_of_bandwidth(speed, speeds)),
               fmt::format("{:.2f}", time_over_fp32(speed, speeds))});
  return table.text();
}

int bench_update(const Args& args) {
  const Threads threads = args.machine.use();
  Json json = {{"program", fmt::format("narrowgauge {}", version())},
               {"cpu", cpu_model()},
               {"isa", name_of(current_isa())},
               {"threads", threads.count}};
  for (const Footprint& footprint : kFootprints) {
    UpdateSpeedRun run = args.run;
    run.threads = threads;
    run.rows = footprint.rows_per_thread * threads.count;
    run.cols = footprint.cols;
    const UpdateSpeeds speeds = update_speeds(run);
    json[footprint.name] = footprint_json(speeds);
    if (args.json) continue;
    if (&footprint == kFootprints)  // not before a filter that matches nothing was refused
      print("{}, {}, {} threads\n", cpu_model(), name_of(current_isa()), threads.count);
    print(
        "\n{}: {} x {} weights; bandwidth of {}: {:.1f} GB/s (copy {:.1f}, addition in place "
        "{:.1f})\n{}",
        footprint.name, run.rows, run.cols, footprint.holds, speeds.bandwidth() * 1e-9,
        speeds.copy.bytes_per_second() * 1e-9, speeds.add.bytes_per_second() * 1e-9,
        table_of(speeds));
    flush_output();
  }
  if (args.json) print_json(json);
  return 0;
}

}  // namespace

std::function<int()> declare_bench_update(Flags flags) {
  auto args = std::make_shared<Args>();
  flags.option("--filter", args->run.filter, "only updates whose names contain this")
      .type_name("TEXT");
  flags.option("--rounds", args->run.rounds, "of each update; the best counts")
      .shows_default()
      .range(1, 1000);
  args->machine.declare_threads(flags);
  flags.flag("--json", args->json, "print one JSON object");
  flags.footer(
      "AdamW where nothing else is said; moments FP32. What the weight is stored as, then the "
      "rule\n"
      "by which a step is rounded into it. B/element: what must be read and written once, weight,\n"
      "carry, master, moments and gradient; GB/s count that, however often an update passes over\n"
      "it. % of bandwidth: of the faster of a copy and an addition of as much memory in FP32.\n"
      "time / fp32: against AdamW on FP32 weights.");
  return [args] { return bench_update(*args); };
}

}  // namespace ng::cli
