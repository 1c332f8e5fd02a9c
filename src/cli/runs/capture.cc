// narrowgauge capture RUN OUT: activations, weights and gradients of a real step of a run.
#include "tools/capture.h"

#include "base/json.h"
#include "cli/command.h"
#include "cli/progress_line.h"
#include "cli/shared_flags.h"

namespace ng::cli {
namespace {

struct CaptureArgs {
  std::string run, out;
  int64_t step = -1;
  CaptureSettings settings;
  bool json = false;
};

Json json_of(const CaptureArgs& args, const CaptureReport& report) {
  Json tensors = Json::array();
  for (const CapturedTensor& tensor : report.tensors)
    tensors.push_back({{"name", tensor.name}, {"shape", {tensor.rows, tensor.cols}}});
  return {{"run", args.run},
          {"out", args.out},
          {"recipe", report.recipe},
          {"phase", report.phase.index},
          {"step", report.step},
          {"checkpoint", report.checkpoint},
          {"batch",
           {{"sequences", report.sequences},
            {"length", report.length},
            {"micro_batches", report.micros}}},
          {"loss", json_number(report.loss)},
          {"recorded_loss", report.recorded ? Json(*report.recorded) : Json()},
          {"skipped", report.is_skipped},
          {"tensors", tensors}};
}

std::string text_of(const CaptureArgs& args, const CaptureReport& report) {
  std::string text = fmt::format(
      "{} after {} steps, in {}{}\n  batch  of step {}: {} x {} tokens{}\n  loss   {}{}\n",
      args.run, report.step, report.recipe,
      report.phase.count > 1 ? ", " + report.phase.text() : "", report.step + 1, report.sequences,
      report.length, report.micros > 1 ? fmt::format(", {} micro-batches", report.micros) : "",
      report.loss,
      report.recorded && *report.recorded == report.loss ? ", as metrics.jsonl has it" : "");
  Table table({"tensor", "rows", "columns"}, 1);
  for (const CapturedTensor& tensor : report.tensors)
    table.row({tensor.name, std::to_string(tensor.rows), std::to_string(tensor.cols)});
  return text + table.text();
}

void run_capture(const CaptureArgs& args) {
  CaptureSettings settings = args.settings;
  if (args.step >= 0) settings.step = args.step;
  CaptureReport report;
  {
    ProgressLine line("steps");
    report = capture(
        args.run, args.out, settings, [&](int64_t done, int64_t total) { line.show(done, total); },
        [&](const std::string& sentence) {
          line.clear();
          note(sentence);
        });
  }
  if (report.recorded && *report.recorded != report.loss)
    note(
        fmt::format("metrics.jsonl has a loss of {} for step {}: the run trained otherwise then, "
                    "on another version or with other settings",
                    *report.recorded, report.step + 1));
  if (report.is_skipped)
    note(fmt::format("step {} is one that training skips: something is not finite",
                     report.step + 1));
  print_either(args.json, json_of(args, report), text_of(args, report));
}

constexpr const char* kCaptureFooter =
    R"(Trains from the newest checkpoint at or before step N to it, in memory: nothing is written
into the run. The batch is the run's own of step N + 1. OUT gets of each layer L, as F32, with T
tokens: L.x (T, K) its input, L.weight (N, K), L.dy (T, N) the gradient of its output, L.dx (T, K)
and L.dw (N, K) as the recipe's products gave them. x, weight and dy are what the recipe casts.
cast, inspect, matmul, update, noise and reduce take them by name:
  narrowgauge matmul OUT:blocks.0.mlp.up.x OUT:blocks.0.mlp.up.weight --a mxfp4 --b mxfp4)";

void declare_capture(Flags flags, CaptureArgs& args) {
  flags.option("RUN", args.run, "folder of a run, with checkpoints").required();
  flags.option("OUT", args.out, "safetensors file to write (needed)");
  flags
      .option("--layers PATTERN", args.settings.layers,
              "names of linear layers, one pattern or more: head 'blocks.*.mlp.up' 'blocks.0.*'")
      .required();
  flags.option("--step N", args.step, "steps done before; else those of the newest checkpoint")
      .range(0, (int64_t{1} << 32) - 2);
  flags.option("--threads", args.settings.threads, "0: all cores; else as the run")
      .range(0, 1 << 12);
  flags.flag("--json", args.json, "what was captured, as JSON");
  flags.check([&args] {  // OUT may follow the patterns, which take all words up to a flag
    if (!args.out.empty()) return;
    if (args.settings.layers.size() < 2) throw WrongFlags::missing("OUT");
    args.out = args.settings.layers.back();
    args.settings.layers.pop_back();
  });
  flags.footer(kCaptureFooter);
}

}  // namespace

const Command kCapture{"capture", "activations, weights and gradients of a step of a run",
                       with_flags<CaptureArgs, declare_capture, run_capture>};

}  // namespace ng::cli
