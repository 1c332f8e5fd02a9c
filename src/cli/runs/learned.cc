// narrowgauge learned RUN: what weight noise learned, as a recipe and a model in mixed formats.
#include "learned/learned.h"

#include <cmath>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/progress_line.h"
#include "cli/shared_flags.h"
#include "report/recipe_text.h"

namespace ng::cli {
namespace {

struct LearnedArgs {
  LearnedSettings settings;
  std::string per = "layer";
  int64_t step = -1;
  MachineFlags machine;
  bool json = false;
};

/// "1024 mxfp6_e3m2, 3 bf16"
std::string blocks_text(const LearnedRow& row) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < row.blocks_in.size(); ++i)
    if (row.blocks_in[i] > 0)
      parts.push_back(fmt::format("{} {}", row.blocks_in[i], learned_formats()[i].name));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string layers_text(const LearnedReport& report) {
  Table table(
      {"layer", "blocks", "b_t mean", "max", "format", "narrowed", "B/parameter", "by block"});
  for (const LearnedRow& row : report.layers)
    table.row({row.layer, count_text(row.blocks), fmt::format("{:.3f}", row.mean_bits),
               fmt::format("{:.3f}", row.most_bits), row.format,
               fmt::format("{:.1f} %", 100 * row.narrowed),
               fmt::format("{:.3f}", row.bytes_by_layer / static_cast<double>(row.rows * row.cols)),
               blocks_text(row)});
  return table.text();
}

std::string losses_text(const LearnedReport& report) {
  Table table(
      {"weights of", "cast", "products in", "B/parameter", "of the model", "loss", "to the first"},
      3);
  const double first = report.losses.front().evaluation.loss;
  for (const LearnedLoss& loss : report.losses) {
    const bool is_first = &loss == &report.losses.front();
    table.row({on_one_line(loss.run), loss.cast, on_one_line(loss.numbers),
               fmt::format("{:.3f}", report.bytes_per_parameter(loss)),
               fmt::format("{:.3f}", report.bytes_per_parameter_of_model(loss)),
               fmt::format("{:.6f}", loss.evaluation.loss),
               is_first ? "" : fmt::format("{:+.6f}", loss.evaluation.loss - first)});
  }
  return table.text();
}

std::string text_of(const LearnedReport& report) {
  return fmt::format(
      "step {} of {}, recipe {}{}\n{}\n{}\n{}"
      "{} of {} parameters have noise; on {} tokens of {}\n\n"
      "{out}/recipe.toml\n{out}/model\n{out}/learned.json\n",
      report.step, on_one_line(report.settings.run), report.recipe,
      report.phase.count > 1 ? ", " + report.phase.text() : "",
      report::matches_text(report.matches), layers_text(report), losses_text(report),
      count_text(report.noised), count_text(report.parameters),
      count_text(report.losses.front().evaluation.tokens), on_one_line(report.data),
      fmt::arg("out", on_one_line(report.settings.out)));
}

LearnedSettings settings_of(const LearnedArgs& args) {
  LearnedSettings settings = args.settings;
  if (settings.out.empty()) settings.out = join_path(settings.run, kLearnedFolder);
  if (args.step >= 0) settings.step = args.step;
  settings.by_block = args.per == "block";
  settings.backend = args.machine.backend;
  settings.threads = args.machine.use();
  settings.thread_order = args.machine.thread_order;
  return settings;
}

LearnedResult result_of(const LearnedSettings& settings) {
  ProgressLine line("windows");
  return learn_formats(settings, [&](const std::string&, int64_t done, int64_t windows) {
    line.show(done, windows);
  });
}

int learned(const LearnedArgs& args) {
  const LearnedResult result = result_of(settings_of(args));
  for (const LearnedLoss& loss : result.report.losses)
    if (!std::isfinite(loss.evaluation.loss))
      note(fmt::format("{}, {}: the loss is not a number", loss.run, loss.cast));
  {
    const StopAtSignals signals;  // until now nothing was written, from here on all of it is
    write_learned(result);
    if (signals.flag()) return signals.exit_code();
  }
  print_either(args.json, learned_json(result.report), text_of(result.report));
  return 0;
}

constexpr const char* kLearnedFooter =
    R"(b_t is how many bits a weight has under its noise. By its largest b_t a layer gets MXFP6 E3M2
(up to 4), MXFP8 E4M3 (to 5), BF16 (to 9), FP16 (to 12) or FP32: Table C.1 of the paper on GaussWS,
Ahn et al., "Gaussian Weight Sampling for Scalable, Efficient and Stable Pseudo-Quantization
Training", 2025. DIR gets recipe.toml, which stores those layers so (eval and train take
it by --recipe) and trains them with FP32 masters; model/, the weights cast, as F32, which holds
them exactly; learned.json. With --per block the model has each block of 32 x 32 rounded in its own
format with one power of two as scale; no recipe can say that, so bytes are those that such a layout
would take: elements, a byte for the scale and one for the format of each block.
"narrowed" is the share of a layer's weights that its format, of fewer bits, has otherwise than
BF16.
Losses, each with the numbers of its products: the weights uncast, cast both ways, and in one format
of at most the same bytes throughout; of other runs as they were trained and cast both ways to this
run's formats, to nearest.
Bytes per parameter are those of layers with noise; "of the model" has all else in FP32.)";

void declare_learned(Flags flags, LearnedArgs& args) {
  flags.option("RUN", args.settings.run, "folder of a run with weight noise").required();
  flags.option("--out DIR", args.settings.out, "folder to write; else RUN/learned");
  flags.option("--step", args.step, "of the checkpoint; else the newest")
      .range(0, int64_t{99'999'999});
  flags.option("--data FILE", args.settings.data,
               "text for losses; else the run's validation text");
  flags.option("--against RUN", args.settings.against,
               "other runs of the same model, for their losses");
  flags.setting("--per", args.per, "what gets a format in the model that is written")
      .one_of({"layer", "block"});
  flags.option("--least-bits", args.settings.least_bits, "of an element: no narrower format")
      .one_of({6, 8, 16, 32});
  args.machine.declare(flags);
  flags.flag("--json", args.json, "print what learned.json has");
  flags.footer(kLearnedFooter);
}

}  // namespace

const Command kLearned{"learned", "what weight noise learned, as a recipe and a model in formats",
                       with_flags<LearnedArgs, declare_learned, learned>};

}  // namespace ng::cli
