// The gradient of a small model in several recipes against the one in FP32. [recipes.md §8]
#include "study/rounding_gradient.h"

#include <algorithm>

#include "recipe/layer_names.h"
#include "study/gradient_draws.h"
#include "study/gradient_probe.h"
#include "study/written.h"

namespace ng::study {
namespace {

constexpr int64_t kTrainSteps = 60;
constexpr int64_t kGradientDraws = 96;
constexpr int64_t kLeastGradientDraws = 3;
constexpr float kRate = 2e-3f;

struct RecipeCase {
  const char* name;
  double projection, error, bias;  ///< the specification's, on another text
};
constexpr RecipeCase kRecipeCases[] = {
    {"bf16", kNone, kNone, kNone},
    {"fp8-current", .996, .073, .073},
    {"mxfp4-nr", .869, .212, .212},
    {"mxfp4-nr-rht", .865, .211, .143},
    {"mxfp4-sr", 1.004, .265, 0},
    {"mxfp4-sr-rht", 1.000, .254, 0},
    {"mxfp4-sr-rceil", kNone, kNone, kNone},
    {"nvfp4", 1.013, .256, .211},
};
constexpr size_t kNearest = 2, kStochastic = 4;

/// Gradients of many draws against the FP32 gradient.
struct RoundingDraws {
  GradientDraws drawn;
  DrawnErrors errors = {};             ///< of all matrices
  double flushed[kOperandRoles] = {};  ///< shares in the last draw
};

RoundingDraws draws_of(GradientProbe& probe, const GradientDraws& none, int64_t draws,
                       Progress& progress) {
  RoundingDraws all{.drawn = none};
  for (int64_t draw = 0; draw < draws; ++draw) {
    all.drawn.add(probe.gradient(kTrainSteps, draw));
    progress.step();
  }
  all.errors = all.drawn.errors();
  for (size_t role = 0; role < kOperandRoles; ++role)
    all.flushed[role] = probe.flushed(static_cast<OperandRole>(role));
  return all;
}

/// "0.attn.q" of "blocks.0.attn.q.weight"
std::string short_name(std::string_view matrix) {
  const layers::Place place = layers::place_of(layers::layer_of(matrix));
  return fmt::format("{}.{}", place.block, place.part);
}

/// Least and greatest projection under nearest rounding of the matrices of one block.
void add_range(Facts& facts, const Grid& matrices, const std::string& block) {
  double least = 1e9, most = -1e9;
  for (size_t r = 0; r < matrices.rows.size(); ++r) {
    if (!matrices.rows[r].starts_with(block)) continue;
    least = std::min(least, matrices.at(r, 0).found);
    most = std::max(most, matrices.at(r, 0).found);
  }
  facts[block + " least"] = least;
  facts[block + " most"] = most;
}

/// Everything the section says.
struct Results {
  double first_loss = 0, last_loss = 0;
  std::vector<RoundingDraws> draws;  ///< by recipe
  std::vector<GradientProbe::Matrix> matrices;
};

Results results_of(const Settings& settings, Progress& progress) {
  Results results;
  const ProbeTask task = generated_task(settings.seed);
  GradientProbe exact("fp32", task, settings.threads);
  for (int64_t step = 0; step < kTrainSteps; ++step) {
    results.last_loss = exact.train(step, kRate);
    if (step == 0) results.first_loss = results.last_loss;
  }
  progress.step();
  results.matrices = exact.matrices();
  std::vector<int64_t> sizes;
  for (const auto& matrix : results.matrices) sizes.push_back(matrix.size);
  const GradientDraws none(exact.gradient(kTrainSteps, 0), sizes);
  for (const RecipeCase& recipe : kRecipeCases) {
    GradientProbe probe(recipe.name, task, settings.threads);
    probe.copy_weights(exact);
    results.draws.push_back(
        draws_of(probe, none, settings.part_of(kGradientDraws, kLeastGradientDraws), progress));
  }
  return results;
}

Grid by_recipe(const Results& results) {
  Grid grid("gradient", "Gradient of the blocks' matrices against the FP32 gradient", "recipe",
            names_of(kRecipeCases), {"projection", "relative error of one draw", "relative bias"},
            {.expected_is = "specification's model"});
  for (size_t r = 0; r < results.draws.size(); ++r) {
    const DrawnErrors& d = results.draws[r].errors;
    const RecipeCase& recipe = kRecipeCases[r];
    grid.at(r, 0) = d.projection.value(recipe.projection);
    grid.at(r, 1) = d.error.value(recipe.error);
    grid.at(r, 2) = {d.bias, kNone, recipe.bias};
  }
  return grid;
}

/// Projection matrix by matrix.
Grid by_matrix(const Results& results) {
  Names rows;
  for (const auto& matrix : results.matrices) rows.push_back(short_name(matrix.name));
  return Grid("projection_by_matrix", "Projection of the mean gradient, by matrix", "matrix",
              std::move(rows), {kRecipeCases[kNearest].name, kRecipeCases[kStochastic].name})
      .filled([&](size_t r, size_t c) {
        const RoundingDraws& draws = results.draws[c == 0 ? kNearest : kStochastic];
        return draws.drawn.errors({&r, 1}).projection.mean();
      });
}

}  // namespace

int64_t gradient_steps(const Settings& settings) {
  return 1 + std::ssize(kRecipeCases) * settings.part_of(kGradientDraws, kLeastGradientDraws);
}

Section gradient_section(const Settings& settings, Progress& progress) {
  const Results results = results_of(settings, progress);
  const Grid recipes = by_recipe(results);
  const Grid matrices = by_matrix(results);
  const RoundingDraws& nearest = results.draws[kNearest];
  const auto flushed = [&](OperandRole role) {
    return 100 * nearest.flushed[static_cast<size_t>(role)];
  };
  Facts facts = {{"steps", kTrainSteps},
                 {"first", results.first_loss},
                 {"last", results.last_loss},
                 {"draws", settings.part_of(kGradientDraws, kLeastGradientDraws)},
                 {"lost", 100 * (1 - nearest.errors.projection.mean())},
                 {"flushed_dy", flushed(OperandRole::wgrad_grad)},
                 {"flushed_x", flushed(OperandRole::wgrad_input)}};
  for (const char* block : {"0.", "1."}) add_range(facts, matrices, block);
  Section section = section_of("rounding", "gradient", {recipes, matrices}, facts);
  section.charts = {bars_of(recipes, "1 = the FP32 gradient"), bars_of(matrices, "projection")};
  return section;
}

}  // namespace ng::study
