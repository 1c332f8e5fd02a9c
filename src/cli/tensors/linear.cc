// narrowgauge linear IN OUT --recipe R: what a recipe makes of a linear layer of a file.
#include "tools/linear_file.h"

#include "base/json.h"
#include "cli/command.h"
#include "cli/models/open_model.h"
#include "cli/tensors/file_flags.h"
#include "cli/tensors/tensor_text.h"
#include "recipe/phase_choice.h"

namespace ng::cli {
namespace {

struct LinearArgs {
  FileFlags files;
  LinearFileSettings settings;
  std::string input, bias, phase;
  int64_t input_id = -1, output_id = -1;  ///< -1: as the weight's
};

Json json_of(const LinearFigures& f) {
  return {{"name", f.name},
          {"numbers", f.numbers},
          {"rows", f.rows},
          {"cols", f.cols},
          {"sqnr_db", json_number(f.sqnr_db)},
          {"saturated", f.saturated},
          {"flushed", f.flushed}};
}

Json json_of(const LinearFileReport& r, const Recipe& recipe, const MeasuredPhase& phase) {
  Json figures = Json::array();
  for (const LinearFigures& f : r.figures) figures.push_back(json_of(f));
  return {{"recipe", r.recipe},   {"phase", phase.index}, {"phases", recipe.phase_starts()},
          {"layer", r.layer},     {"tokens", r.tokens},   {"inputs", r.inputs},
          {"outputs", r.outputs}, {"tensors", figures}};
}

std::string text_of(const LinearFileReport& r, const std::string& numbers) {
  Table table({"", "numbers", "shape", "SQNR dB", "saturated", "flushed"}, 2);
  for (const LinearFigures& f : r.figures) {
    const bool is_operand = f.name.find('.') != std::string::npos;
    const auto share = [&](double part) {
      return is_operand ? fmt::format("{:.3f} %", 100 * part) : std::string();
    };
    table.row({f.name, f.numbers, fmt::format("({}, {})", f.rows, f.cols), decibel_text(f.sqnr_db),
               share(f.saturated), share(f.flushed)});
  }
  return fmt::format("{} in {}: {} tokens, {} inputs, {} outputs\n{}", r.layer, numbers, r.tokens,
                     r.inputs, r.outputs, table.text());
}

void linear(const LinearArgs& args) {
  const FileFlags& files = args.files;
  LinearFileSettings settings = files.here(args.settings);
  if (!args.input.empty()) settings.tensors["input"] = {args.input};
  if (!args.bias.empty()) settings.tensors["bias"] = {args.bias};
  if (args.input_id >= 0) settings.input_id = static_cast<uint32_t>(args.input_id);
  if (args.output_id >= 0) settings.output_id = static_cast<uint32_t>(args.output_id);
  const Recipe recipe = files.read_recipe();
  const MeasuredPhase phase =
      measured_phase(recipe, {.word = args.phase, .otherwise = PhaseChoice::End::first});
  settings.phase = phase.index;
  note_phase(recipe, phase);
  const LinearFileReport report = linear_file(files.in, files.out, recipe, settings);
  note_unmet_overrides(recipe, report.layer, settings.blocks);
  if (report.is_turned)
    note(
        fmt::format("{}: the file has its weight as (inputs, outputs), which is turned: "
                    "weight_grad is (outputs, inputs)",
                    report.layer));
  if (report.is_last)
    note(
        fmt::format("{}: its block counts as the model's last, for which {} has other numbers: "
                    "--blocks N says how many there are",
                    report.layer, report.recipe));
  print_either(files.json, json_of(report, recipe, phase), text_of(report, text_of(recipe, phase)));
}

constexpr const char* kLinearFooter =
    R"(IN holds floats: weight (N, K), input (T, K), grad (T, N), which is dL/dY, and bias (N); no
grad: there is the forward product alone. --weight, --input, --grad and --bias name them where they
are called otherwise, as in what capture writes: L.weight, L.x, L.dy.
OUT gets output, input_grad and weight_grad as F32, and of each operand, fprop.input, fprop.weight,
dgrad.grad, dgrad.weight, wgrad.grad, wgrad.input, as its GEMM reads it, rows x reduction, padded
and transformed: .codes (one each, U8 or U16), .scale and .tensor_scale as cast writes them, and
.values as F32, with the prescale that the product undoes.
The recipe is taken in its first phase or --phase; a delayed scale is 1, as at its first step;
neither weight noise nor the storage of weights is applied. Draws are those of training where the
three ids are those of the model's table: X has its producer's, G the layer's output.
SQNR is that of an operand against what was cast, and of a product against that of FP32 operands.)";

void declare_linear(Flags flags, LinearArgs& args) {
  LinearFileSettings& s = args.settings;
  constexpr int64_t kIds = (int64_t{1} << 20) - 1;
  args.files.declare(flags, "weight, input and grad");
  add_seed(flags, s.seed, "of stochastic rounding and of signs");
  add_step_and_tensor(flags, s.step, "of training", s.tensor_id);
  flags.setting("--micro", s.micro, "micro-batch of the step").range(0, (int64_t{1} << 24) - 1);
  flags.option("--input-id", args.input_id, "of the input's draws; as --tensor-id").range(0, kIds);
  flags.option("--output-id", args.output_id, "of the gradient's draws; as --tensor-id")
      .range(0, kIds);
  args.files.declare_weight(flags);
  flags.option("--input NAME", args.input, "tensor that is the input");
  args.files.declare_grad(flags, "");
  flags.option("--bias NAME", args.bias, "tensor that is the bias");
  add_layer(flags, s.layer, "linear layer that the weight is of", s.blocks);
  add_phase(flags, args.phase);
  args.files.declare_machine(flags, "the figures, as JSON");
  flags.footer(kLinearFooter);
}

}  // namespace

const Command kLinear{"linear", "what a recipe makes of a linear layer: operands and products",
                      with_flags<LinearArgs, declare_linear, linear>};

}  // namespace ng::cli
