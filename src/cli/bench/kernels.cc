// narrowgauge bench kernels: what is no GEMM on the cpu backend against the limits of the machine.
#include <utility>

#include "base/error.h"
#include "base/isa.h"
#include "base/json.h"
#include "base/version.h"
#include "cli/bench/bench.h"
#include "cli/output.h"
#include "cli/shared_flags.h"
#include "speed/kernel_speed.h"
#include "speed/machine.h"

namespace ng::cli {
namespace {

struct Args {
  MachineFlags machine;
  SpeedRun run;
  std::vector<int64_t> sizes;
  bool json = false;
};

struct Footprint {
  std::string name;
  std::string holds;
  int64_t rows;
  int64_t cols;
};

/// Square matrices, or one in the L2 cache of each thread and one that only memory holds.
std::vector<Footprint> footprints_of(const Args& args, Threads threads) {
  std::vector<Footprint> all;
  for (const int64_t size : args.sizes) {
    if (size % 64 != 0)  // Hadamard transforms of 64 along both sides
      throw Error({.place = "--sizes",
                   .key = "",
                   .problem = fmt::format("{}", size),
                   .remedy = "multiples of 64"});
    all.push_back({fmt::format("{}", size), "a matrix of this size", size, size});
  }
  if (all.empty())
    all = {{"cache", "the L2 cache", 128 * threads.count, 768},
           {"memory", "memory", 16384 * threads.count, 2048}};
  return all;
}

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
  bool is_first = true;
  for (const Footprint& footprint : footprints_of(args, threads)) {
    SpeedRun run = args.run;
    run.threads = threads;
    run.rows = footprint.rows;
    run.cols = footprint.cols;
    const std::vector<KernelSpeed> speeds = kernel_speeds(run);
    Json& rows = json[footprint.name] = Json::array();
    for (const KernelSpeed& speed : speeds) rows.push_back(speed_json(speed, speeds));
    if (args.json) continue;
    if (std::exchange(is_first, false))  // not before a filter that matches nothing was refused
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

std::function<int()> declare_bench_kernels(Flags flags) {
  auto args = std::make_shared<Args>();
  flags.option("--filter", args->run.filter, "only kernels whose names contain this")
      .type_name("TEXT");
  flags.option("--rounds", args->run.rounds, "of all kernels in turns; the best counts")
      .shows_default()
      .range(1, 1000);
  flags
      .option("--sizes", args->sizes,
              "instead of a matrix in cache and one in memory: N x N for each, multiples of 64")
      .list()
      .range(64, int64_t{1} << 14)
      .type_name("N,N,N");
  args->machine.declare_threads(flags);
  flags.flag("--json", args->json, "print one JSON object");
  flags.footer(
      "Encoding turns FP32 into GEMM operands: scales, rounded elements, counters. along: blocks\n"
      "lie along the rows as stored; turned: along the columns, so the matrix is transposed too.\n"
      "Decoding turns codes into FP32, unpacking turns operands into codes. Noise makes a weight "
      "in\n"
      "BF16 with what training by noise adds to it; backward: the gradient of its bit-widths. Of\n"
      "gradients between ranks: the largest magnitude, codes by one scale of all ranks, the mean "
      "of\n"
      "two ranks' codes. Layers: what lies between their GEMMs, stored as FP32 or BF16.\n"
      "GB/s count what must be read and written once. % of copy compares GB/s, % of read\n"
      "elements/s, each with what the cache, or the memory, gives a copy or the reading of a\n"
      "matrix.");
  return [args] { return bench_kernels(*args); };
}

}  // namespace ng::cli
