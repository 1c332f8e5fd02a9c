#include "optim/optimizer.h"

#include <cmath>

namespace ng {
namespace {

using Make = std::unique_ptr<Optimizer> (*)(const OptimizerRecipe&, const OptimizerSettings&);

struct Row {
  OptimizerRecipe::Kind kind;
  Make make;
};
constexpr Row kOptimizers[] = {{OptimizerRecipe::Kind::adamw, make_adamw},
                               {OptimizerRecipe::Kind::adam_mini, make_adam_mini},
                               {OptimizerRecipe::Kind::muon, make_muon},
                               {OptimizerRecipe::Kind::sgd, make_sgd}};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerRecipe& recipe,
                                          const OptimizerSettings& settings) {
  for (const Row& row : kOptimizers)
    if (row.kind == recipe.kind) return row.make(recipe, settings);
  NG_CHECK(false, static_cast<int>(recipe.kind));
  return nullptr;
}

StoredSpec Optimizer::state(const ParameterSpec& spec, std::string_view name,
                            const Operand& cast) const {
  const int64_t elements = spec.cut.whole_rows(spec.rows) * spec.cut.whole_cols(spec.cols);
  const bool says_size = cast.min_size != Operand::kNoMinSize;
  const bool is_wide =
      spec.is_vector || elements < (says_size ? cast.min_size : settings_.least_narrow);
  Operand stored = is_wide ? operand_of("fp32") : cast;
  stored.min_size = Operand::kNoMinSize;
  return {{.name = fmt::format("{}.{}", name, spec.name),
           .owner = spec.name,
           .kind = MemoryKind::moments,
           .rows = spec.rows,
           .cols = spec.cols,
           .cut = spec.cut},
          stored};
}

StoredSpec Optimizer::second_moment(const ParameterSpec& spec) const {
  StoredSpec moment = state(spec, "moment2", recipe_.moment2);
  moment.cast.is_positive = moment.cast.map != CodeMap::none;
  return moment;
}

void Optimizer::claim(Run& run, Parameter& parameter) const {
  Stored* const moments[] = {&parameter.moment1, &parameter.moment2};
  const std::vector<StoredSpec> all = states(parameter.whole_spec());
  for (size_t i = 0; i < all.size(); ++i) *moments[i] = run.stored(parameter.own(all[i]));
}

OptimizerNumbers Optimizer::numbers_of(const ParameterSpec& spec, float lr, int64_t step) const {
  const auto t = static_cast<double>(step + 1);
  return {.lr = lr,
          .beta1 = settings_.beta1,
          .beta2 = settings_.beta2,
          .eps = settings_.eps,
          .weight_decay = spec.weight_decay.value_or(
              spec.is_vector && !settings_.decays_vectors ? 0.0f : settings_.weight_decay),
          .correction1 = static_cast<float>(1.0 - std::pow(double{settings_.beta1}, t)),
          .correction2 = static_cast<float>(1.0 - std::pow(double{settings_.beta2}, t))};
}

Update Optimizer::update_by(OptimizerRule rule, const Run& run, const Parameter& parameter,
                            const OptimizerStep& step) const {
  return Update{.optimizer = rule,
                .weight = parameter.weight,
                .moment1 = parameter.moment1,
                .moment2 = parameter.moment2,
                .grad = parameter.gradient(),
                .numbers = numbers_of(parameter.spec, step.lr, step.step),
                .key = {.seed = run.rounding_seed(),
                        .tensor = parameter.id,
                        .step = static_cast<uint32_t>(step.step),
                        .first_group = first_group_of(parameter.first_row, parameter.spec.cols)},
                .control = step.control,
                .report = step.report,
                .maxima = step.maxima};
}

void Optimizer::check(Run& run, const Parameter& parameter, const OptimizerStep& step) const {
  run.execute(CheckUpdate{.update = update_by(rule().value(), run, parameter, step),
                          .control = step.control,
                          .parameter = parameter.id});
}

bool Optimizer::has_shared_scales(const Run& run, const Parameter& parameter) const {
  const bool is_part = parameter.spec.cut || parameter.whole_rows > 0;
  return is_part && rule() && update_by(*rule(), run, parameter, {}).has_shared_scales();
}

void Optimizer::find_maxima(Run& run, const Parameter& parameter, const OptimizerStep& step,
                            UpdateMaxima* maxima) const {
  run.execute(FindUpdateMaxima{.update = update_by(rule().value(), run, parameter, step),
                               .maxima = maxima});
}

void Optimizer::update(Run& run, Parameter& parameter, const OptimizerStep& step) const {
  run.execute(update_by(rule().value(), run, parameter, step));
}

}  // namespace ng
