// narrowgauge bench kernels: what is no GEMM on a backend against the limits of the machine.
#include <algorithm>
#include <utility>

#include "base/json.h"
#include "base/machine.h"
#include "cli/bench/bench.h"
#include "cli/shared_flags.h"
#include "speed/kernel_speed.h"
#include "speed/machine.h"

namespace ng::cli {
namespace {

struct BenchKernelsArgs {
  MachineFlags machine;
  SpeedRun run;
  std::vector<int64_t> sizes;
  bool json = false;
};

/// Square matrices, or one in the L2 cache of each thread and one that only memory holds; of a
/// backend that is not cpu the latter.
std::vector<Footprint> footprints_of(const BenchKernelsArgs& args, Threads threads) {
  std::vector<Footprint> all;
  for (const int64_t size : args.sizes) {
    if (size % 64 != 0)  // Hadamard transforms of 64 along both sides
      refuse("--sizes", fmt::format("{}", size), "multiples of 64");
    all.push_back({fmt::format("{}", size), "a matrix of this size", size, size});
  }
  if (!all.empty()) return all;
  if (args.machine.backend != "cpu") return {{"memory", "the backend's memory", 16384, 4096}};
  return {{"cache", "the L2 cache", 128 * threads.count, 768},
          {"memory", "memory", 16384 * threads.count, 2048}};
}

/// How much longer a cast takes with its transform than without; null: it has none.
Json transform_cost(const KernelSpeed& cast, const std::vector<KernelSpeed>& all) {
  constexpr std::string_view kTransform = " hadamard 64";
  std::string plain = cast.name;
  const size_t at = plain.find(kTransform);
  if (at == std::string::npos) return {};
  plain.erase(at, kTransform.size());
  const auto other = std::ranges::find(all, plain, &KernelSpeed::name);
  if (other == all.end()) return {};
  return other->elements_per_second / cast.elements_per_second - 1;
}

Json rows_of(const std::vector<KernelSpeed>& speeds) {
  const KernelSpeed &copy = speeds[0], &read = speeds[1];
  Json rows = Json::array();
  for (const KernelSpeed& speed : speeds) {
    Json row = {{"kernel", speed.name},
                {"elements_per_second", speed.elements_per_second},
                {"bytes_per_second", speed.bytes_per_second},
                {"share_of_copy", speed.bytes_per_second / copy.bytes_per_second},
                {"share_of_read", speed.elements_per_second / read.elements_per_second}};
    if (speed.flops_per_second > 0) row["flops_per_second"] = speed.flops_per_second;
    if (Json cost = transform_cost(speed, speeds); !cost.is_null())
      row["transform_cost"] = std::move(cost);
    rows.push_back(std::move(row));
  }
  return rows;
}

constexpr Column kKernelColumns[] = {{"kernel", "kernel"},
                                     {"G elements/s", "elements_per_second", "{:.2f}", 1e-9},
                                     {"GB/s", "bytes_per_second", "{:.1f}", 1e-9},
                                     {"% of copy", "share_of_copy", "{:.0f}", 100},
                                     {"% of read", "share_of_read", "{:.0f}", 100},
                                     {"GFLOP/s", "flops_per_second", "{:.0f}", 1e-9}};

// What the percentages are of.
std::string limits_of(const Footprint& footprint, const std::vector<KernelSpeed>& speeds) {
  return fmt::format(
      "limits in {}: copy (FP32 to FP32) {:.1f} GB/s, read (the largest magnitude) {:.1f} GB/s\n",
      footprint.holds, speeds[0].bytes_per_second * 1e-9, speeds[1].bytes_per_second * 1e-9);
}

void bench_kernels(const BenchKernelsArgs& args) {
  const Threads threads = args.machine.use();
  const bool is_cpu = args.machine.backend == "cpu";
  const double peak = is_cpu ? measured_peak_flops(threads) : 0;
  const auto backend = args.machine.make();
  const std::string head = machine_text(*backend, threads) +
                           (is_cpu ? fmt::format(", FP32 peak {:.0f} GFLOP/s", peak * 1e-9)
                                   : ", backend " + args.machine.backend);
  Json json = machine_json(*backend, threads);
  json["backend"] = args.machine.backend;
  if (is_cpu) json["fma_flops"] = peak;
  bool is_first = true;
  for (const Footprint& footprint : footprints_of(args, threads)) {
    SpeedRun run = args.run;
    run.threads = threads;
    if (!is_cpu) run.backend = [&] { return args.machine.make(); };
    run.rows = footprint.rows;
    run.cols = footprint.cols;
    const std::vector<KernelSpeed> speeds = kernel_speeds(run);
    const Json& rows = json[footprint.name] = rows_of(speeds);
    if (args.json) continue;
    if (std::exchange(is_first, false))  // not before a filter that matches nothing was refused
      print("{}\n", head);
    print("\n{}: {} x {} values of FP32, {}\n{}{}", footprint.name, run.rows, run.cols,
          size_text(static_cast<double>(run.rows * run.cols) * sizeof(float)),
          limits_of(footprint, speeds), table_of(rows, kKernelColumns));
    flush_output();
  }
  if (args.json) print_json(json);
}

constexpr const char* kBenchKernelsFooter =
    R"(Encoding turns FP32 into GEMM operands: scales, rounded elements, counters. along: blocks
lie along the rows as stored; turned: along the columns, so the matrix is transposed too.
Decoding turns codes into FP32, unpacking turns operands into codes. Noise makes a weight in
BF16 with what training by noise adds to it; backward: the gradient of its bit-widths. Of
gradients between ranks: the largest magnitude, codes by one scale of all ranks, the mean of
two ranks' codes. Layers: what lies between their GEMMs, stored as FP32 or BF16.
Maxima of blocks, decoding, unpacking and Box and Muller's noise are of the backend cpu alone.
GB/s count what must be read and written once. % of copy compares GB/s, % of read
elements/s, each with what the cache, or the memory, gives a copy or the reading of a
matrix. GFLOP/s of attention leave out scores that it computes again. --json says what
a transform costs: how much longer a cast takes with it than without.)";

void declare_bench_kernels(Flags flags, BenchKernelsArgs& args) {
  flags.option("--filter TEXT", args.run.filter, "only kernels whose names contain this");
  flags.setting("--rounds", args.run.rounds, "of all kernels in turns; the best counts")
      .range(1, 1000);
  flags
      .option("--sizes N,N,N", args.sizes,
              "instead of a matrix in cache and one in memory: N x N for each, multiples of 64")
      .list()
      .range(64, int64_t{1} << 14);
  args.machine.declare(flags);
  flags.flag("--json", args.json, "print one JSON object");
  flags.footer(kBenchKernelsFooter);
}

}  // namespace

const Command kBenchKernels{"kernels", "casts of matrices, against a copy",
                            with_flags<BenchKernelsArgs, declare_bench_kernels, bench_kernels>};

}  // namespace ng::cli
