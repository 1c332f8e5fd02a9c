#include "cli/runs/search_setup.h"

#include <fmt/ranges.h>

#include "base/files.h"
#include "base/units.h"
#include "recipe/said_recipe.h"
#include "train/run_folder.h"
#include "train/run_inputs.h"

namespace ng::cli {
namespace {

/// The run file with more settings over it.
RunConfig config_of(const SearchArgs& args, const std::vector<std::string>& more) {
  RunFlags flags = args.run;
  flags.settings.insert(flags.settings.end(), more.begin(), more.end());
  return flags.load();
}

void require_searchable(const RunConfig& config, const SearchArgs& args) {
  if (!config.set_recipe_keys.empty())
    throw Error({.place = "--set",
                 .key = args.run.settings[config.set_recipe_keys.front().setting],
                 .problem = "over which of the recipes?",
                 .remedy = "--grid recipe.KEY=VALUE: all that the grid makes have it"});
  if (config.train.objective != Objective::cross_entropy)
    config.refuse({"train.objective"}, "a search takes gradients of texts", "cross_entropy");
  if (const bool goes_on = !config.lora.init.empty(); goes_on || config.lora.adapters.rank > 0)
    config.refuse({goes_on ? "lora.init" : "lora.rank"}, "a search takes gradients of whole models",
                  "nothing of adapters");
  if (config.train.epochs > 0) config.refuse({"train.epochs"}, "rungs have steps", "train.steps");
  if (args.steps > config.train.steps)
    throw Error({.place = "--steps",
                 .key = "",
                 .problem = fmt::format("{} of the first rung", args.steps),
                 .remedy = fmt::format("at most train.steps, {}", config.train.steps)});
}

/// A rung shortens train.steps alone: warmup that fills it would leave nothing of the schedule.
void require_room_for_warmup(const RunConfig& config, const search::Rung& first) {
  if (first.steps < config.train.steps && config.train.warmup >= first.steps)
    throw Error({.place = "--steps",
                 .key = "",
                 .problem = fmt::format("the first rung's {} are not more than train.warmup, {}",
                                        counted(first.steps, "step"), config.train.warmup),
                 .remedy = "more, or a smaller train.warmup"});
}

int64_t kept_by_gradients(const SearchArgs& args, int64_t candidates) {
  if (args.keep > candidates)
    throw Error({.place = "--keep",
                 .key = "",
                 .problem = fmt::format("{} of {}", args.keep, counted(candidates, "candidate")),
                 .remedy = "at most all of them"});
  return args.keep > 0 ? args.keep : (candidates + 1) / 2;
}

search::ReportedRecipe reported(const search::Candidate& candidate, const ModelConfig& model) {
  const Recipe recipe = Recipe::load(candidate.loadable());
  return {.label = candidate.label,
          .recipe = candidate.recipe,
          .hash = recipe.hash(),
          .changes = candidate.changes,
          .bits = search::operand_bits(model, recipe)};
}

/// Their steps and seeds; each rung's seeds begin behind those of the one before it.
std::vector<RunConfig> configs_of(const SearchArgs& args, const std::vector<search::Rung>& plan) {
  std::vector<RunConfig> configs;
  uint64_t seeds_before = 0;
  for (const search::Rung& rung : plan) {
    RunConfig config = config_of(args, {fmt::format("train.steps={}", rung.steps)});
    config.seed += seeds_before;
    seeds_before += static_cast<uint64_t>(rung.seeds);
    configs.push_back(std::move(config));
  }
  return configs;
}

/// What compare() checks of its runs, before the candidates' files are there.
void require_all_recipes(const SearchSetup& setup, const search::Candidate& base) {
  std::vector<search::Candidate> all = {base};
  all.insert(all.end(), setup.candidates.begin(), setup.candidates.end());
  std::vector<CompareRun> runs;
  for (const search::Candidate& candidate : all) {
    CompareRun run{.config = setup.config,
                   .of = {.label = candidate.label, .settings = candidate.changes},
                   .folder = {}};
    run.config.set_recipe(candidate.loadable());
    runs.push_back(std::move(run));
  }
  require_recipes(runs);
}

std::vector<CompareRun> plain_runs(const RunConfig& config, std::vector<std::string> recipes,
                                   int64_t seeds, const std::string& out) {
  return compare_runs(
      {{.settings = {}, .config = config}},
      {.recipes = std::move(recipes), .seeds = seeds, .with_twin = false, .out = out});
}

}  // namespace

std::string SearchArgs::folder() const {
  return out.empty() ? first_run_folder(run.file) + "-search" : out;
}

std::vector<std::string> SearchArgs::words() const {
  const SearchArgs defaults;
  std::vector<std::string> words = {"recipes", "search"};
  const std::vector<std::string> of_run = run.words();
  words.insert(words.end(), of_run.begin(), of_run.end());
  const auto add = [&](const char* flag, const std::string& value) {
    words.insert(words.end(), {flag, value});
  };
  const auto add_number = [&](const char* flag, int64_t value, int64_t otherwise) {
    if (value != otherwise) add(flag, std::to_string(value));
  };
  add("--base", base);
  for (const std::string& axis : grid) add("--grid", axis);
  if (!recipes.empty()) add("--recipes", fmt::format("{}", fmt::join(recipes, ",")));
  if (skips_invalid) words.emplace_back("--skip-invalid");
  add_number("--keep", keep, defaults.keep);
  add_number("--steps", steps, defaults.steps);
  add_number("--seeds", seeds, defaults.seeds);
  add_number("--draws", draws, defaults.draws);
  if (by != defaults.by) add("--by", by);
  if (!hours.empty()) add("--hours", hours);
  if (equal != defaults.equal) add("--equal", equal);
  if (!out.empty()) add("--out", out);
  if (json) words.emplace_back("--json");
  return words;
}

std::vector<CompareRun> SearchSetup::runs_of(size_t rung,
                                             const std::vector<std::string>& recipes) const {
  std::vector<std::string> all = {args.base};
  if (Recipe::load(args.base).hash() != Recipe::load("bf16").hash()) all.emplace_back("bf16");
  all.insert(all.end(), recipes.begin(), recipes.end());
  return plain_runs(configs[rung], all, report.plan[rung].seeds, folder_of(rung));
}

std::vector<CompareRun> SearchSetup::reference() const {
  return plain_runs(config, {"bf16"}, 1, reference_folder());
}

std::string SearchSetup::folder_of(size_t rung) const {
  return join_path(args.folder(), fmt::format("rung-{}", rung + 1));
}

std::string SearchSetup::reference_folder() const { return join_path(args.folder(), "reference"); }

SearchSetup search_setup(const SearchArgs& args) {
  SearchSetup setup{.args = args,
                    .config = config_of(args, {}),
                    .configs = {},
                    .model = {},
                    .candidates = {},
                    .report = {}};
  require_searchable(setup.config, args);
  const std::string base = recipe_labels({args.base}).front();
  search::Candidates found = search::candidates_of({.base = args.base,
                                                    .axes = args.grid,
                                                    .recipes = args.recipes,
                                                    .skips_invalid = args.skips_invalid,
                                                    .folder = join_path(args.folder(), "recipes")});
  setup.candidates = std::move(found.all);
  setup.model = run_model_config(setup.config, *open_run_tokenizer(setup.config));
  search::SearchReport& report = setup.report;
  report.run = args.run.file;
  report.rules = {.base = base,
                  .by = args.by == "own" ? &CompareRow::own : &CompareRow::bf16,
                  .equal = std::stod(args.equal)};
  report.beta1 = setup.config.train.beta1;
  report.draws = args.draws;
  report.left_out = std::move(found.left_out);
  const search::Candidate as_base{.label = base, .recipe = args.base, .changes = {}, .text = {}};
  require_all_recipes(setup, as_base);
  report.base = reported(as_base, setup.model);
  for (const search::Candidate& candidate : setup.candidates)
    report.candidates.push_back(reported(candidate, setup.model));
  const int64_t steps = setup.config.train.steps;
  report.plan =
      search::rungs_of({.candidates = kept_by_gradients(args, std::ssize(setup.candidates)),
                        .first_steps = args.steps > 0 ? args.steps : steps,
                        .steps = steps,
                        .seeds = args.seeds});
  require_room_for_warmup(setup.config, report.plan.front());
  setup.configs = configs_of(args, report.plan);
  return setup;
}

}  // namespace ng::cli
