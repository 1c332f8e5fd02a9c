// narrowgauge advise MODEL: how fast a model would train here in each recipe, what it would take of
// memory, and whether FP4 pays.
#include <algorithm>

#include "base/json.h"
#include "base/machine.h"
#include "cli/bench/bench.h"
#include "cli/models/open_model.h"
#include "cli/progress_line.h"
#include "cli/shared_flags.h"
#include "run/backends.h"
#include "speed/advice.h"
#include "train/metrics.h"

namespace ng::cli {
namespace {

constexpr const char* kBaseline = "bf16";

struct AdviseArgs {
  StepFlags step;
  std::vector<std::string> recipes;  // empty: all named ones
  int64_t seconds = 30;
  MachineFlags machine;
  bool json = false;
};

std::vector<std::string> recipes_of(const AdviseArgs& args) {
  std::vector<std::string> names = args.recipes.empty() ? recipe_names() : args.recipes;
  // All are compared with it, and most have operations of it.
  const auto baseline = std::find(names.begin(), names.end(), kBaseline);
  if (baseline == names.end())
    names.insert(names.begin(), kBaseline);
  else
    std::rotate(names.begin(), baseline, baseline + 1);
  return names;
}

void sort_by_speed(std::vector<Advice>& all) {
  std::stable_sort(all.begin(), all.end(), [](const Advice& a, const Advice& b) {
    return a.tokens_per_second > b.tokens_per_second;
  });
}

const Advice* fastest(const std::vector<Advice>& sorted, bool in_fp4) {
  for (const Advice& advice : sorted)
    if (advice.is_known && (advice.has_fp4 || !in_fp4)) return &advice;
  return nullptr;
}

Json rows_of(const std::vector<Advice>& all) {
  double baseline = 0;
  for (const Advice& advice : all)
    if (advice.recipe == kBaseline) baseline = advice.tokens_per_second;
  Json rows = Json::array();
  for (const Advice& advice : all) {
    Json row = {{"recipe", advice.recipe}, {"fp4", advice.has_fp4}};
    if (advice.problem.empty()) row["planned_bytes"] = advice.bytes;
    if (!advice.problem.empty()) row["problem"] = advice.problem;
    if (advice.is_known) {
      row["tokens_per_second"] = advice.tokens_per_second;
      row["seconds_per_step"] = total_seconds(advice.seconds);
      row["seconds_by_kind"] = time_json(advice.seconds);
      if (baseline > 0) row["speed_beside_bf16"] = advice.tokens_per_second / baseline;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Json widths_json(const std::vector<WidthAdvice>& widths) {
  Json rows = Json::array();
  for (const WidthAdvice& at : widths)
    rows.push_back({{"width", at.width},
                    {"bf16_seconds", at.wide_seconds},
                    {"fp4_seconds", at.narrow_seconds},
                    {"speed_beside_bf16", at.wide_seconds / at.narrow_seconds}});
  return rows;
}

/// Whether sums in the order of AMX's tiles are faster than the chain: of the fastest recipe that
/// has them and one beside it that does not, X-tile and X. [recipes.md §7, `sum`]
std::string tiles_sentence(const std::vector<Advice>& sorted) {
  constexpr std::string_view kOnTiles = "-tile";
  for (const Advice& tiles : sorted) {
    const std::string_view name = tiles.recipe;
    if (!tiles.is_known || !name.ends_with(kOnTiles)) continue;
    const std::string_view base = name.substr(0, name.size() - kOnTiles.size());
    const auto chain = std::ranges::find(sorted, base, &Advice::recipe);
    if (chain == sorted.end() || !chain->is_known) continue;
    const double ratio = tiles.tokens_per_second / chain->tokens_per_second;
    return fmt::format("tile sums   {} here: {} is {:.2f} times as fast as {}\n",
                       ratio > 1 ? "pay" : "do not pay", name, ratio, base);
  }
  return {};
}

std::string sentences_of(const std::vector<Advice>& sorted, const std::vector<WidthAdvice>& widths,
                         const AdviseArgs& args) {
  std::string text;
  const auto unknown = std::count_if(sorted.begin(), sorted.end(), [](const Advice& advice) {
    return !advice.is_known && advice.problem.empty();
  });
  if (unknown > 0)
    text += fmt::format("not measured in {} s: {}; --seconds says how long\n", args.seconds,
                        counted(unknown, "recipe"));
  if (const Advice* best = fastest(sorted, false))
    text += fmt::format("fastest     {}, {:.0f} tokens/s\n", best->recipe, best->tokens_per_second);
  text += tiles_sentence(sorted);
  const Advice* fp4 = fastest(sorted, true);
  if (fp4 == nullptr || widths.empty()) return text;
  const int64_t from = pays_from(widths);
  const std::string between =
      fmt::format("a block at widths {} to {}", widths.front().width, widths.back().width);
  if (from == 0)
    return text + fmt::format("FP4         does not pay here: {} is slower than bf16 in {}\n",
                              fp4->recipe, between);
  return text + fmt::format(
                    "FP4         pays from width {} on: {} is {:.2f} times as fast as bf16 "
                    "at {} ({})\n",
                    from, fp4->recipe, widths.back().wide_seconds / widths.back().narrow_seconds,
                    widths.back().width, between);
}

constexpr Column kAdviceColumns[] = {{"recipe", "recipe"},
                                     {"tokens/s", "tokens_per_second", "{:.0f}"},
                                     {"x bf16", "speed_beside_bf16", "{:.2f}"},
                                     {"s/step", "seconds_per_step", "{:.3f}"},
                                     {.heading = "memory",
                                      .key = "planned_bytes",
                                      .text = [](const Json& bytes) { return size_text(bytes); }}};

void advise_command(AdviseArgs args) {
  const ModelConfig config = args.step.config();
  const Threads threads = args.machine.use();
  ProgressLine line("recipes");
  const AdviceSettings settings{
      .shape = {.batch = args.step.batch, .length = args.step.length, .steps = 1, .warmup = 0},
      .seconds = static_cast<double>(args.seconds),
      .backend =
          [&] { return make_backend(args.machine.backend, threads, args.machine.thread_order); },
      .progress = [&](int64_t done, int64_t total) { line.show(done, total); }};
  require_shape(config, settings.shape);
  OperationTimes times;
  std::vector<Advice> all = advise(times, config, recipes_of(args), settings);
  sort_by_speed(all);
  std::vector<WidthAdvice> widths;
  if (const Advice* fp4 = fastest(all, true))
    widths = advise_widths(times, config, kBaseline, fp4->recipe, settings);
  line.clear();
  Json json = {{"model", args.step.model},
               {"batch", args.step.batch},
               {"seq", args.step.length},
               {"backend", args.machine.backend},
               {"recipes", rows_of(all)},
               {"widths", widths_json(widths)},
               {"fp4_pays_from_width", pays_from(widths)}};
  const auto backend = settings.backend();
  json.update(machine_json(*backend, threads));
  if (args.json) return print_json(json);
  print("{}, {} x {} tokens on {}\n{}{}", args.step.model, args.step.batch, args.step.length,
        machine_text(*backend, threads), table_of(json["recipes"], kAdviceColumns),
        sentences_of(all, widths, args));
}

constexpr const char* kAdviseFooter =
    R"(Operations are timed in a few steps of small models of the same width, each once in whichever
recipe it comes first; a recipe's step is their sum, of its first phase. bench step measures whole
steps. Nothing is said of losses: docs/results is about these.)";

void declare_advise(Flags flags, AdviseArgs& args) {
  args.step.declare_positional(flags);
  flags.option("--recipes A,B,C", args.recipes, "those; else all named ones").list();
  flags.setting("--seconds", args.seconds, "about how long to measure").range(1, 100000);
  args.machine.declare(flags);
  flags.flag("--json", args.json, "print one JSON object");
  flags.footer(kAdviseFooter);
}

}  // namespace

const Command kAdvise{"advise", "how fast each recipe would train a model here, and its memory",
                      with_flags<AdviseArgs, declare_advise, advise_command>};

}  // namespace ng::cli
