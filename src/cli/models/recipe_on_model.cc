#include "cli/models/recipe_on_model.h"

#include <algorithm>

#include "base/json.h"
#include "cli/bench/bench.h"
#include "cli/output.h"
#include "cli/run_tables.h"
#include "model/weights.h"
#include "recipe/matches.h"
#include "recipe/phase_choice.h"
#include "recipe/warnings.h"
#include "report/recipe_text.h"
#include "speed/layer_speed.h"
#include "train/metrics.h"
#include "train/run_files.h"

namespace ng::cli {
namespace {

// "fprop  mxfp4 x mxfp4: exact on integer dot products", ... for layers that do the same.
std::string runs_text(const Json& layers) {
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (const Json& layer : layers) {
    std::string lines;
    for (const char* gemm : {"fprop", "dgrad", "wgrad"}) {
      const Json& facts = layer[gemm];
      const std::string left = facts["left"], right = facts["right"], runs = facts["runs"];
      const int hadamard = facts["hadamard"];
      lines += fmt::format("  {}  {}{}: {}\n", gemm, left == right ? left : left + " x " + right,
                           hadamard > 0 ? fmt::format(", Hadamard {}", hadamard) : "", runs);
    }
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& entry) { return entry.first == lines; });
    if (group == groups.end()) group = groups.insert(group, {lines, {}});
    for (const std::string name : layer["layers"]) group->second.push_back(name);
  }
  std::string text;
  for (const auto& [lines, names] : groups) text += report::layers_text(names) + "\n" + lines;
  return text;
}

// What measures a whole step of the same.
std::string whole_step_command(const std::string& named, const std::string& phase,
                               const StepFlags& step, const std::string& backend) {
  std::vector<std::string> words = {"bench", "step", "--model", step.model};
  if (!step.base.empty()) words.insert(words.end(), {"--base", step.base});
  words.insert(words.end(), {"--recipe", named, "--batch", std::to_string(step.batch), "--seq",
                             std::to_string(step.length)});
  if (!phase.empty()) words.insert(words.end(), {"--phase", phase});
  if (backend != "cpu") words.insert(words.end(), {"--backend", backend});
  return shell_command(words);
}

Json measured_on(const ModelConfig& config, const Recipe& recipe,
                 const std::vector<MeasuredPhase>& measured_phases, const StepFlags& step,
                 const MachineFlags& machine) {
  const Threads threads = machine.use();
  const int64_t tokens = step.batch * step.length;
  Json phases = Json::array();
  for (const MeasuredPhase& phase : measured_phases) {
    Json layers = Json::array();
    double seconds = 0, fp32_seconds = 0;
    for (const LayerKind& kind : layer_kinds(config, recipe, phase.index)) {
      const auto [measured, in_fp32] = compare_layer(kind, tokens, [&] { return machine.make(); });
      const auto count = static_cast<double>(kind.names.size());
      layers.push_back({{"layers", kind.names},
                        {"outputs", kind.outputs},
                        {"inputs", kind.inputs},
                        {"fprop", report::gemm_json(kind.recipe.fprop, machine.backend)},
                        {"dgrad", report::gemm_json(kind.recipe.dgrad, machine.backend)},
                        {"wgrad", report::gemm_json(kind.recipe.wgrad, machine.backend)},
                        {"seconds", measured.total()},
                        {"seconds_forward", measured.forward},
                        {"seconds_backward", measured.backward},
                        {"seconds_by_kind", time_json(measured.by_kind)},
                        {"fp32_seconds", in_fp32.total()},
                        {"fp32_seconds_forward", in_fp32.forward},
                        {"fp32_seconds_backward", in_fp32.backward}});
      seconds += count * measured.total();
      fp32_seconds += count * in_fp32.total();
    }
    phases.push_back({{"phase", phase.index},
                      {"from", phase.from},
                      {"to", phase.to},
                      {"words", phase.text()},
                      {"layers", layers},
                      {"seconds", seconds},
                      {"fp32_seconds", fp32_seconds}});
  }
  Json json = {{"recipe", recipe.name()},
               {"model", step.model},
               {"batch", step.batch},
               {"seq", step.length},
               {"backend", machine.backend},
               {"phase", phases.size() == 1 ? phases[0]["phase"] : Json("all")},
               {"matches", matches_json(recipe.matches(layers_of(config)))},
               {"phases", phases}};
  json.update(machine_json(*machine.make(), threads));
  return json;
}

std::string text_of(const Json& measured) {
  const auto tokens = measured["batch"].get<int64_t>() * measured["seq"].get<int64_t>();
  std::string text = fmt::format(
      "{} on {}, {} x {} tokens, {}, {}, {} threads\n", measured["recipe"].get<std::string>(),
      measured["model"].get<std::string>(), measured["batch"].get<int64_t>(),
      measured["seq"].get<int64_t>(), measured.value("device", measured["cpu"].get<std::string>()),
      measured["isa"].get<std::string>(), measured["threads"].get<int>());
  for (const Json& phase : measured["phases"]) {
    const auto words = phase["words"].get<std::string>();
    text += words.empty() ? "\n" : fmt::format("\n{}\n", words);
    Table table({"layers", "outputs x inputs", "forward ms", "times", "backward ms", "times"});
    for (const Json& layer : phase["layers"]) {
      const auto names = layer["layers"].get<std::vector<std::string>>();
      std::vector<std::string> cells = {
          report::layers_text(names),
          fmt::format("{} x {}", layer["outputs"].get<int64_t>(), layer["inputs"].get<int64_t>())};
      for (const std::string part : {"seconds_forward", "seconds_backward"}) {
        const double seconds = layer[part], fp32 = layer["fp32_" + part];
        cells.push_back(fmt::format("{:.2f}", seconds * 1e3));
        cells.push_back(fmt::format("{:.2f}", fp32 / seconds));
      }
      table.row(std::move(cells));
    }
    text += table.text() + runs_text(phase["layers"]);
    const double seconds = phase["seconds"], fp32 = phase["fp32_seconds"];
    text += fmt::format(
        "times: faster than in FP32, quantization included. All linear layers: {:.3f} s for {} "
        "tokens,\nFP32 {:.3f} s: {:.2f} times. Attention, norms, loss and update come on top:\n  "
        "{}\n",
        seconds, count_text(tokens), fp32, fp32 / seconds, phase["whole_step"].get<std::string>());
  }
  return text;
}

}  // namespace

std::vector<MeasuredPhase> phases_of(const Recipe& recipe, const std::string& word,
                                     const std::string& model) {
  const PhaseChoice choice{.word = word, .steps = [&] { return steps_of_model(model); }};
  if (!word.empty()) return {measured_phase(recipe, choice)};
  std::vector<MeasuredPhase> all;
  for (size_t i = 0; i < recipe.phase_starts().size(); ++i)
    all.push_back(phase_of(recipe, static_cast<int>(i)));
  return all;
}

void print_recipe_on_model(const std::string& named, const std::string& phase, StepFlags step,
                           const MachineFlags& machine, bool json) {
  const Recipe recipe = Recipe::load(named);
  const ModelConfig config = step.config();
  for (const std::string& warning : phase_warnings(recipe, layers_of(config))) note(warning);
  const auto backend = machine.make();
  const StepSettings settings{
      .sequences = step.batch, .length = step.length, .micros = 1, .optimizer = {}};
  const MemoryPlan plan = plan_memory(*backend, config, recipe, RecomputePolicy::none, settings);
  const MemoryPlan fp32 = plan_memory_in_fp32(*backend, config, RecomputePolicy::none, settings);
  int64_t parameters = 0;
  for (const ParameterSpec& spec : parameter_table(config)) parameters += spec.rows * spec.cols;
  Json measured = measured_on(config, recipe, phases_of(recipe, phase, step.model), step, machine);
  measured["memory"] = memory_event(plan, fp32, parameters);
  measured["whole_step"] = whole_step_command(named, phase, step, machine.backend);
  for (Json& one : measured["phases"]) {
    const bool is_only = one["words"].get<std::string>().empty();
    one["whole_step"] =
        whole_step_command(named, is_only ? "" : one["phase"].dump(), step, machine.backend);
  }
  print_either(json, measured,
               text_of(measured) + "\n" + report::matches_text(recipe.matches(layers_of(config))) +
                   memory_table(plan, fp32, parameters));
}

}  // namespace ng::cli
