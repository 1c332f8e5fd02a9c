// narrowgauge bench kernels: the casts of the cpu backend against the machine's own limits.
#include "base/isa.h"
#include "base/json.h"
#include "base/version.h"
#include "cli/bench/bench.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "speed/kernel_speed.h"
#include "speed/machine.h"

namespace ng::cli {
namespace {

struct Args {
  MachineFlags machine;
  SpeedRun run;
  bool json = false;
};

/// A matrix in the L2 cache of each thread, and one that only memory holds.
struct Footprint {
  const char* name;
  const char* holds;
  int64_t rows_per_thread;
  int64_t cols;
};
constexpr Footprint kFootprints[] = {{"cache", "the L2 cache", 128, 768},
                                     {"memory", "memory", 16384, 2048}};

Json speed_json(const KernelSpeed& speed, const std::vector<KernelSpeed>& all) {
  return {{"kernel", speed.name},
          {"elements_per_second", speed.elements_per_second},
          {"bytes_per_second", speed.bytes_per_second},
          {"share_of_copy", speed.bytes_per_second / all[0].bytes_per_second},
          {"share_of_read", speed.elements_per_second / all[1].elements_per_second}};
}

std::string table_of(const std::vector<KernelSpeed>& speeds) {
  Table table({"kernel", "G elements/s", "GB/s", "% of copy", "% of read"});
  for (const KernelSpeed& speed : speeds) {
    const Json json = speed_json(speed, speeds);
    table.row({speed.name, fmt::format("{:.2f}", speed.elements_per_second * 1e-9),
               fmt::format("{:.1f}", speed.bytes_per_second * 1e-9),
               fmt::format("{:.0f}", 100 * json["share_of_copy"].get<double>()),
               fmt::format("{:.0f}", 100 * json["share_of_read"].get<double>())});
  }
  return table.text();
}

// What the percentages are of.
std::string limits_of(const Footprint& footprint, const std::vector<KernelSpeed>& speeds) {
  return fmt::format(
      "limits in {}: copy (FP32 to FP32) {:.1f} GB/s, read (the largest magnitude) {:.1f} GB/s\n",
      footprint.holds, speeds[0].bytes_per_second * 1e-9, speeds[1].bytes_per_second * 1e-9);
}

int bench_kernels(const Args& args) {
  const Threads threads = args.machine.use();
  const double peak = measured_peak_flops(threads);
  Json json = {{"program", fmt::format("narrowgauge {}", version())},
               {"cpu", cpu_model()},
               {"isa", name_of(current_isa())},
               {"threads", threads.count},
               {"fma_flops", peak}};
  for (const Footprint& footprint : kFootprints) {
    SpeedRun run = args.run;
    run.threads = threads;
    run.rows = footprint.rows_per_thread * threads.count;
    run.cols = footprint.cols;
    const std::vector<KernelSpeed> speeds = kernel_speeds(run);
    Json& rows = json[footprint.name] = Json::array();
    for (const KernelSpeed& speed : speeds) rows.push_back(speed_json(speed, speeds));
    if (args.json) continue;
    if (&footprint == kFootprints)  // not before a filter that matches nothing was refused
      print("{}, {}, {} threads, FMA peak {:.0f} GFLOP/s\n", cpu_model(), name_of(current_isa()),
            threads.count, peak * 1e-9);
    print("\n{}: {} x {} values of FP32, {}\n{}{}", footprint.name, run.rows, run.cols,
          size_text(static_cast<double>(run.rows * run.cols) * sizeof(float)),
          limits_of(footprint, speeds), table_of(speeds));
    flush_output();
  }
  if (args.json) print_json(json);
  return 0;
}

}  // namespace

std::function<int()> declare_bench_kernels(CLI::App& app) {
  auto args = std::make_shared<Args>();
  app.add_option("--filter", args->run.filter, "only kernels whose names contain this")
      ->type_name("TEXT");
  app.add_option("--rounds", args->run.rounds, "of all kernels in turns; the best counts")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  args->machine.declare_threads(app);
  app.add_flag("--json", args->json, "print one JSON object");
  app.footer(
      "Encoding turns FP32 into GEMM operands: scales, rounded elements, counters. along: blocks\n"
      "lie along the rows as stored; turned: along the columns, so the matrix is transposed too.\n"
      "Decoding turns codes into FP32, unpacking turns operands into codes. Noise makes a weight "
      "in\n"
      "BF16 with what training by noise adds to it; backward: the gradient of its bit-widths.\n"
      "GB/s count what must\n"
      "be read and written once. % of copy compares GB/s, % of read elements/s, each with what "
      "the\n"
      "cache, or the memory, gives a copy or the reading of a matrix.");
  return [args] { return bench_kernels(*args); };
}

}  // namespace ng::cli
