// narrowgauge bench gemm: the GEMM in each format against FP32 and the machine's peak.
#include "base/json.h"
#include "base/machine.h"
#include "base/median.h"
#include "cli/bench/bench.h"
#include "cli/shared_flags.h"
#include "speed/gemm_speed.h"
#include "speed/machine.h"

namespace ng::cli {
namespace {

struct BenchGemmArgs {
  MachineFlags machine;
  std::vector<int64_t> shape;  ///< m, n, k; empty: those of training
  GemmRun run = {
      .threads = {},
      .formats = {"mxfp4", "nvfp4", "nvfp4/16x16", "mxfp6_e2m3", "mxint8", "int8", "mxfp8_e4m3"}};
  bool json = false;
};

double flops_of(const GemmShape& shape) {
  return 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) *
         static_cast<double>(shape.k);
}

/// What one shape took, FP32 first.
struct Row {
  GemmShape shape;
  std::vector<double> seconds;
  [[nodiscard]] double ratio(size_t format) const { return seconds[0] / seconds[format]; }
};

std::vector<double> median_ratios(const std::vector<Row>& rows, size_t formats) {
  std::vector<double> medians;
  for (size_t f = 0; f < formats; ++f) {
    std::vector<double> ratios;
    for (const Row& row : rows) ratios.push_back(row.ratio(f));
    medians.push_back(median(ratios));
  }
  return medians;
}

Json row_json(const GemmRun& run, const Row& row) {
  Json json = {{"m", row.shape.m}, {"n", row.shape.n}, {"k", row.shape.k}};
  for (size_t f = 0; f < run.formats.size(); ++f)
    json["formats"][run.formats[f]] = {{"flops", flops_of(row.shape) / row.seconds[f]},
                                       {"ratio_to_fp32", row.ratio(f)}};
  return json;
}

std::string table_of(const GemmRun& run, const std::vector<Row>& rows) {
  std::vector<std::string> heading = {"m x n x k"};
  for (const std::string& format : run.formats) heading.push_back(format);
  Table table(heading);
  for (const Row& row : rows) {
    std::vector<std::string> cells = {
        fmt::format("{} x {} x {}", row.shape.m, row.shape.n, row.shape.k)};
    for (size_t f = 0; f < run.formats.size(); ++f) {
      const double gflops = flops_of(row.shape) / row.seconds[f] * 1e-9;
      cells.push_back(f == 0 ? fmt::format("{:.0f}", gflops)
                             : fmt::format("{:.0f} {:.2f}x", gflops, row.ratio(f)));
    }
    table.row(cells);
  }
  std::vector<std::string> cells = {"median"};
  const std::vector<double> medians = median_ratios(rows, run.formats.size());
  for (size_t f = 0; f < medians.size(); ++f)
    cells.push_back(f == 0 ? "" : fmt::format("{:.2f}x", medians[f]));
  table.row(cells);
  return table.text();
}

std::vector<GemmShape> shapes_of(const BenchGemmArgs& args) {
  if (args.shape.empty()) return training_shapes();
  return {{args.shape[0], args.shape[1], args.shape[2]}};
}

std::string peak_text(double per_second, std::string_view unit) {
  return per_second == 0 ? "none" : fmt::format("{:.0f} {}", per_second * 1e-9, unit);
}

void bench_gemm(const BenchGemmArgs& args) {
  GemmRun run = args.run;
  run.threads = args.machine.use();
  run.formats.insert(run.formats.begin(), "fp32");
  const double fma = measured_peak_flops(run.threads);
  const double bf16 = measured_peak_bf16_flops(run.threads);
  const double dot = measured_peak_dot_ops(run.threads);
  GemmSpeed speed(run);
  std::vector<Row> rows;
  for (const GemmShape& shape : shapes_of(args)) rows.push_back({shape, speed.seconds(shape)});
  if (args.json) {
    Json json = machine_json(run.threads);
    json["fma_flops"] = fma;
    json["bf16_flops"] = bf16;
    json["int8_ops"] = dot;
    for (const Row& row : rows) json["shapes"].push_back(row_json(run, row));
    const std::vector<double> medians = median_ratios(rows, run.formats.size());
    for (size_t f = 1; f < medians.size(); ++f)
      json["median_ratio_to_fp32"][run.formats[f]] = medians[f];
    print_json(json);
    return;
  }
  print("{}: FP32 peak {}, dot product peaks: BF16 {}, int8 {}\n\n", machine_text(run.threads),
        peak_text(fma, "GFLOP/s"), peak_text(bf16, "GFLOP/s"), peak_text(dot, "GOP/s"));
  print("{}", table_of(run, rows));
}

void declare_bench_gemm(Flags flags, BenchGemmArgs& args) {
  flags
      .setting("--formats A,B,C", args.run.formats,
               "formats of both operands, beside fp32; nvfp4/16x16: with such blocks of the "
               "right one, as of weights; bf16/tile32: summed as matrix tiles do")
      .list();
  flags.option("--shape M,N,K", args.shape, "one shape instead of those of training")
      .list(3)
      .range(1, int64_t{1} << 20);
  flags.setting("--rounds", args.run.rounds, "of all formats in turns; the best counts")
      .range(1, 1000);
  args.machine.declare_threads(flags);
  flags.flag("--json", args.json, "print one JSON object");
  flags.footer(
      "G operations/s (2 m n k a GEMM) and the ratio to FP32 at the shapes of training, operands\n"
      "already quantized; the last row is the median of the ratios.");
}

}  // namespace

const Command kBenchGemm{"gemm", "the GEMM in each format, against FP32",
                         with_flags<BenchGemmArgs, declare_bench_gemm, bench_gemm>};

}  // namespace ng::cli
