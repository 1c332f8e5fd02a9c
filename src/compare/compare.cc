#include "compare/compare.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <utility>

#include "base/files.h"
#include "model/weights.h"
#include "recipe/matches.h"
#include "train/run_files.h"
#include "train/run_inputs.h"

namespace ng {
namespace {

std::string label_of(const std::string& name) {
  return name.ends_with(".toml") ? std::filesystem::path(name).stem().string() : name;
}

/// The recipe whose twin is run, and how that differs.
struct TwinPlan {
  size_t recipe = 0;
  TwinOf twin = TwinOf::none;
};

/// `runs`: those of a point, `plan.seeds` of each recipe.
TwinPlan twin_plan(std::span<const CompareRun> runs, const ComparePlan& plan) {
  if (!plan.with_twin) return {};
  const auto seeds = static_cast<size_t>(plan.seeds);
  for (size_t i = 0; i < plan.recipes.size(); ++i)
    if (draws_rounding(Recipe::load(runs[i * seeds].config.recipe))) return {i, TwinOf::draws};
  return {0, runs.front().config.model.init.empty() ? TwinOf::weights : TwinOf::none};
}

void make_twin(CompareRun& run, TwinOf twin) {
  constexpr float kMillionth = 1e-6f;
  run.of.twin = twin;
  run.folder += "-twin";
  RunConfig& config = run.config;
  if (twin == TwinOf::draws)
    config.twin = config.twin == 0 ? 1 : config.twin - 1;
  else
    config.model.init_std = *config.model.init_std * (1 + kMillionth);
}

CompareRun run_of(const GridPoint& point, const std::string& recipe, uint64_t seed,
                  const std::string& out) {
  const std::string label = label_of(recipe);
  const std::string runs =
      point.settings.empty() ? out : join_path(out, folder_name(point.settings));
  const std::string folder = join_path(runs, fmt::format("{}-seed{}", label, seed));
  CompareRun run{.config = as_begun(point.config, folder),
                 .of = {.label = label, .settings = point.settings, .twin = TwinOf::none},
                 .folder = folder};
  try {
    run.config.set_recipe(recipe);
  } catch (const Error& error) {
    throw at_point(error, label, text_of(point.settings));
  }
  run.config.given["recipe"] = {.place = "--recipes"};
  run.config.seed = seed;
  return run;
}

void require_seeds(const RunConfig& config, int64_t seeds) {
  constexpr uint64_t kLargestSeed = INT64_MAX;  // of a run file
  if (config.seed <= kLargestSeed - static_cast<uint64_t>(seeds - 1)) return;
  throw Error({.place = "--seeds",
               .key = "",
               .problem = fmt::format("{} from {} on", seeds, config.seed),
               .remedy = fmt::format("the last one at most {}", kLargestSeed)});
}

}  // namespace

bool draws_rounding(const Recipe& recipe) {
  return std::ranges::any_of(recipe.values(), [](const auto& value) {
    const auto& [key, text] = value;
    return text.find("stochastic") != std::string::npos ||
           text.find("\"eden\"") != std::string::npos ||
           (key.ends_with("weight_noise.kind") && text != "\"none\"");
  });
}

std::vector<std::string> recipe_labels(const std::vector<std::string>& recipes) {
  std::vector<std::string> labels;
  for (const std::string& name : recipes) {
    const Recipe recipe = Recipe::load(name);
    const std::string label = label_of(name);
    if (std::find(labels.begin(), labels.end(), label) != labels.end())
      throw Error({"--recipes", name, "named twice", "each recipe once"});
    labels.push_back(label);
  }
  return labels;
}

Error at_point(const Error& error, const std::string& label, const std::string& point) {
  Error::Parts parts = error.parts();
  parts.remedy += fmt::format(" (recipe {}{})", label, point.empty() ? "" : ", --grid " + point);
  return Error(parts);
}

std::vector<CompareRun> compare_runs(const std::vector<GridPoint>& points,
                                     const ComparePlan& plan) {
  (void)recipe_labels(plan.recipes);
  std::vector<CompareRun> runs;
  for (const GridPoint& point : points) {
    require_seeds(point.config, plan.seeds);
    const size_t first = runs.size();
    for (const std::string& recipe : plan.recipes)
      for (int64_t k = 0; k < plan.seeds; ++k)
        runs.push_back(
            run_of(point, recipe, point.config.seed + static_cast<uint64_t>(k), plan.out));
    const TwinPlan twin = twin_plan(std::span(runs).subspan(first), plan);
    for (int64_t k = 0; k < plan.seeds && twin.twin != TwinOf::none; ++k) {
      CompareRun run =
          runs[first + twin.recipe * static_cast<size_t>(plan.seeds) + static_cast<size_t>(k)];
      make_twin(run, twin.twin);
      runs.push_back(std::move(run));
    }
  }
  return runs;
}

void require_recipes(const std::vector<CompareRun>& runs) {
  std::map<std::string, std::unique_ptr<Tokenizer>> tokenizers;
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto& [config, of, folder] = runs[i];
    if (i > 0 && of == runs[i - 1].of) continue;
    std::unique_ptr<Tokenizer>& tokenizer = tokenizers[config.data.tokenizer];
    if (tokenizer == nullptr) tokenizer = open_run_tokenizer(config);
    const ModelConfig model = run_model_config(config, *tokenizer);
    const Recipe recipe = open_run_recipe(config);
    try {
      require_global_sums(config, recipe);
      require_matches(recipe, layers_of(model));
      require_lora_numbers(config, recipe, model);
    } catch (const Error& error) {
      throw at_point(error, of.label, text_of(of.settings));
    }
  }
}

}  // namespace ng
