// The gradient of a small model in several recipes against the one in FP32. [recipes.md §8]
#include "study/rounding_gradient.h"

#include <algorithm>

#include "recipe/layer_names.h"
#include "study/gradient_draws.h"
#include "study/gradient_probe.h"

namespace ng::study {
namespace {

constexpr int64_t kTrainSteps = 60;
constexpr int64_t kDraws = 96;
constexpr int64_t kLeastDraws = 3;
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
constexpr size_t kBf16 = 0, kNearest = 2, kStochastic = 4;

/// Gradients of many draws against the FP32 gradient.
struct Draws {
  GradientDraws drawn;
  DrawnErrors errors = {};             ///< of all matrices
  double flushed[kOperandRoles] = {};  ///< shares in the last draw
};

Draws draws_of(GradientProbe& probe, const GradientDraws& none, int64_t draws, Progress& progress) {
  Draws all{.drawn = none};
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
struct Range {
  double least = 1e9, most = -1e9;
};
Range range_of_block(const Grid& matrices, std::string_view prefix) {
  Range range;
  for (size_t r = 0; r < matrices.rows.size(); ++r) {
    if (!matrices.rows[r].starts_with(prefix)) continue;
    range.least = std::min(range.least, matrices.at(r, 0).found);
    range.most = std::max(range.most, matrices.at(r, 0).found);
  }
  return range;
}

/// Everything the section says.
struct Results {
  double first_loss = 0, last_loss = 0;
  std::vector<Draws> draws;  ///< by recipe
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
    results.draws.push_back(draws_of(probe, none, settings.part_of(kDraws, kLeastDraws), progress));
  }
  return results;
}

Grid by_recipe(const Results& results) {
  std::vector<std::string> rows;
  for (const RecipeCase& recipe : kRecipeCases) rows.emplace_back(recipe.name);
  Grid grid("gradient", "Gradient of the blocks' matrices against the FP32 gradient", "recipe",
            std::move(rows), {"projection", "relative error of one draw", "relative bias"});
  grid.expected_is = "specification's model";
  for (size_t r = 0; r < results.draws.size(); ++r) {
    const DrawnErrors& d = results.draws[r].errors;
    const RecipeCase& recipe = kRecipeCases[r];
    grid.at(r, 0) = {d.projection.mean(), d.projection.error(), recipe.projection};
    grid.at(r, 1) = {d.error.mean(), d.error.error(), recipe.error};
    grid.at(r, 2) = {d.bias, kNone, recipe.bias};
  }
  return grid;
}

/// Projection matrix by matrix.
Grid by_matrix(const Results& results) {
  std::vector<std::string> rows;
  for (const auto& matrix : results.matrices) rows.push_back(short_name(matrix.name));
  Grid grid("projection_by_matrix", "Projection of the mean gradient, by matrix", "matrix",
            std::move(rows), {kRecipeCases[kNearest].name, kRecipeCases[kStochastic].name});
  for (size_t r = 0; r < results.matrices.size(); ++r) {
    const auto projected = [&](const Draws& draws) {
      return draws.drawn.errors({&r, 1}).projection.mean();
    };
    grid.at(r, 0).found = projected(results.draws[kNearest]);
    grid.at(r, 1).found = projected(results.draws[kStochastic]);
  }
  return grid;
}

std::vector<std::string> what_is_seen(const Results& results, const Grid& matrices, int64_t count) {
  const Draws& nearest = results.draws[kNearest];
  const DrawnErrors& stochastic = results.draws[kStochastic].errors;
  const DrawnErrors& transformed = results.draws[kStochastic + 1].errors;
  const Range low = range_of_block(matrices, "0.");
  const Range high = range_of_block(matrices, "1.");
  const auto flushed = [&](OperandRole role) {
    return 100 * nearest.flushed[static_cast<size_t>(role)];
  };
  return {fmt::format("A Llama of 2 layers and width 64 learns a generated text for {} steps in "
                      "FP32 (loss {:.2f} to {:.2f}); then the gradient of one batch of 512 tokens "
                      "is taken in each recipe, {} times with other draws. The projection "
                      "<g, g₀>/<g₀, g₀> on the FP32 gradient is 1 where a gradient is unbiased.",
                      kTrainSteps, results.first_loss, results.last_loss, count),
          fmt::format(
              "Rounding to nearest shrinks the gradient: its projection is {:.3f}, so {:.1f} % "
              "are "
              "lost, and since nothing is drawn no averaging brings them back (the "
              "specification's "
              "model lost 13 %). Stochastic rounding with prescale has {:.3f} ± {:.3f}, with the "
              "Hadamard transform {:.3f} ± {:.3f}; what these recipes leave in BF16 has {:.3f}. "
              "One "
              "draw is off by as much as nearest, {:.2f} against {:.2f}, but the mean of many is "
              "not: {:.3f}.",
              nearest.errors.projection.mean(), 100 * (1 - nearest.errors.projection.mean()),
              stochastic.projection.mean(), stochastic.projection.error(),
              transformed.projection.mean(), transformed.projection.error(),
              results.draws[kBf16].errors.projection.mean(), stochastic.error.mean(),
              nearest.errors.error.mean(), stochastic.bias),
          fmt::format(
              "The loss comes from small values beside large ones: below a quarter of the scale "
              "nearest makes them 0, {:.0f} % of the values of dy and {:.0f} % of x in the weight "
              "gradient. Each product loses in both operands, and dy of a lower block has passed "
              "through more of them: the matrices of block 0 keep {:.2f} to {:.2f}, those of "
              "block "
              "1 {:.2f} to {:.2f}.",
              flushed(OperandRole::wgrad_grad), flushed(OperandRole::wgrad_input), low.least,
              low.most, high.least, high.most)};
}

}  // namespace

int64_t gradient_steps(const Settings& settings) {
  return 1 + std::ssize(kRecipeCases) * settings.part_of(kDraws, kLeastDraws);
}

Section gradient_section(const Settings& settings, Progress& progress) {
  const Results results = results_of(settings, progress);
  const Grid recipes = by_recipe(results);
  const Grid matrices = by_matrix(results);
  return {.heading = "The gradient of a model",
          .paragraphs = what_is_seen(results, matrices, settings.part_of(kDraws, kLeastDraws)),
          .grids = {recipes, matrices},
          .charts = {bars_of(recipes, "1 = the FP32 gradient"), bars_of(matrices, "projection")}};
}

}  // namespace ng::study
