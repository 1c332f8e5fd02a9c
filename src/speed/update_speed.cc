#include "speed/update_speed.h"

#include <algorithm>
#include <functional>
#include <tuple>

#include "base/error.h"
#include "model/weights.h"
#include "optim/optimizer.h"
#include "run/backends.h"
#include "run/transfer.h"
#include "speed/timing.h"

namespace ng {
namespace {

constexpr double kLeastUpdateSeconds = 2e-3;  // of one measurement
constexpr float kSize = 0.02f;                // standard deviation of weights and gradients

/// A row of the page: a recipe's weights and optimizer.
struct UpdateCase {
  std::string name;
  WeightStorage weights = LayerRecipe().weights;
  OptimizerRecipe optimizer = fp32_moments(OptimizerRecipe::Kind::adamw);
  Operand gradient = operand_of("fp32");

  static OptimizerRecipe fp32_moments(OptimizerRecipe::Kind kind) {
    return {.kind = kind, .moment1 = operand_of("fp32"), .moment2 = operand_of("fp32")};
  }
};

Operand with_pow2_scale(const char* format) {
  Operand cast = operand_of(format);
  cast.scale = ScaleKind::pow2;
  return cast;
}

Operand drawn(const char* format) { return operand_of(format).rounded_by(Rounding::stochastic); }

/// Every rule on one storage.
void add_rules(std::vector<UpdateCase>& all, const std::string& name, const Operand& storage) {
  const auto add = [&](const char* rule_name, UpdateRule rule, int residual_bits = 8,
                       bool feedback = false) {
    all.push_back({.name = fmt::format("{} {}", name, rule_name),
                   .weights = {.storage = storage,
                               .update = rule,
                               .momentum_feedback = feedback,
                               .residual_bits = residual_bits}});
  };
  add("nearest", UpdateRule::nearest);
  add("stochastic", UpdateRule::stochastic);
  add("kahan", UpdateRule::kahan);
  add("residual 8", UpdateRule::residual);
  add("residual 4", UpdateRule::residual, 4);
  add("precision_aware", UpdateRule::precision_aware);
  add("stochastic, momentum_feedback", UpdateRule::stochastic, 8, true);
}

/// Moments that are not element · scale.
void add_coded_moments(std::vector<UpdateCase>& all) {
  Operand expand = operand_of("fp8_e4m3"), map = operand_of("int8"), parts = operand_of("bf16");
  expand.block = {.kind = Block::Kind::tile, .rows = 1, .cols = 128};
  expand.expand = true;
  map.block = {.kind = Block::Kind::tile, .rows = 1, .cols = 256};
  map.map = CodeMap::dynamic;
  parts.parts = 2;
  for (const auto& [name, moment] :
       {std::pair{"coat-adamw: fp32, moments fp8_e4m3 1x128 expand", expand},
        {"adam8bit: fp32, moments int8 1x256 dynamic", map},
        {"fp32, moments bf16 in two parts", parts}})
    all.push_back({.name = name, .optimizer = {.moment1 = moment, .moment2 = moment}});
}

/// The recipes' storages and states, AdamW in FP32 first. [recipes.md §7]
std::vector<UpdateCase> update_cases() {
  using Kind = OptimizerRecipe::Kind;
  Operand blocks = drawn("fp8_e4m3");
  blocks.scale = ScaleKind::fp32;
  blocks.block = {.kind = Block::Kind::tile, .rows = 1, .cols = 128};
  std::vector<UpdateCase> all = {{.name = "fp32"}};
  add_rules(all, "bf16", operand_of("bf16"));
  add_rules(all, "fp8_e4m3 pow2", with_pow2_scale("fp8_e4m3"));
  add_rules(all, "nvfp4", operand_of("nvfp4"));
  std::erase_if(all, [](const UpdateCase& each) {  // whose grid follows the values
    return each.name == "nvfp4 precision_aware";
  });
  all.push_back(
      {.name = "bf16, master fp32",
       .weights = {.storage = operand_of("bf16"), .master = WeightStorage::Master::fp32}});
  all.push_back(
      {.name = "fp8-lm: fp8_e4m3, master fp16, moments fp8_e4m3, fp16, gradient fp8_e4m3",
       .weights = {.storage = with_pow2_scale("fp8_e4m3"), .master = WeightStorage::Master::fp16},
       .optimizer = {.moment1 = with_pow2_scale("fp8_e4m3"), .moment2 = with_pow2_scale("fp16")},
       .gradient = with_pow2_scale("fp8_e4m3")});
  all.push_back({.name = "adamw-fp8-states: fp32, moments fp8_e4m3 1x128, bf16",
                 .optimizer = {.moment1 = blocks, .moment2 = drawn("bf16")}});
  add_coded_moments(all);
  all.push_back({.name = "sgd fp32", .optimizer = UpdateCase::fp32_moments(Kind::sgd)});
  for (const auto& [name, kind] : {std::pair{"adam_mini", Kind::adam_mini}, {"muon", Kind::muon}}) {
    const OptimizerRecipe optimizer = UpdateCase::fp32_moments(kind);
    all.push_back({.name = fmt::format("{} fp32", name), .optimizer = optimizer});
    all.push_back({.name = fmt::format("{} bf16 stochastic", name),
                   .weights = {.storage = operand_of("bf16"), .update = UpdateRule::stochastic},
                   .optimizer = optimizer});
  }
  return all;
}

/// Bytes of a tensor with its scales.
double stored_bytes(const View& view, const Operand& cast) {
  if (view.rows == 0) return 0;
  double bits = view.element->bits * cast.parts * static_cast<double>(view.size());
  if (view.has_scales()) {
    const ScaleShape scales = scale_shape(cast, view.rows, view.cols);
    bits += static_cast<double>(scales.rows * scales.cols) * numbers_per_block(cast) *
            view.scales.element->bits;
  }
  return bits / 8;
}

/// A weight with everything that its update needs.
class TimedUpdate {
 public:
  TimedUpdate(const UpdateCase& update, const UpdateSpeedRun& speed)
      : run_(make_backend("cpu", speed.threads), 1),
        // With ε of the gradient's size steps differ from weight to weight though every call has
        // the same gradient.
        optimizer_(make_optimizer(update.optimizer, {.beta1 = 0.9f, .eps = kSize})) {
    parameter_.spec.name = "blocks.0.mlp.up.weight";
    parameter_.spec.rows = speed.rows;
    parameter_.spec.cols = speed.cols;
    parameter_.communicate = update.gradient;
    parameter_.weight = claim_weight(run_, parameter_.spec, update.weights);
    optimizer_->claim(run_, parameter_);
    program_ = run_.record([&] { step_with({}); });
    run_.reserve({&program_});
    fill();
  }

  /// The gradient lies where `fill` has left it: a program has one place for it.
  void step() {
    run_.replay(program_, [&] { step_with({}); });
  }
  [[nodiscard]] double bytes_per_element() const {
    const auto& [weight, moment1, moment2] =
        std::tie(parameter_.weight, parameter_.moment1, parameter_.moment2);
    const double value = stored_bytes(weight.value.view, weight.value.cast);
    double both_ways = stored_bytes(weight.carry, {}) + stored_bytes(moment1.view, moment1.cast) +
                       stored_bytes(moment2.view, moment2.cast);
    both_ways += weight.master ? stored_bytes(weight.master.view, weight.master.cast) : value;
    const auto size = static_cast<double>(weight.value.view.size());
    return (2 * both_ways + (weight.master ? value : 0)) / size +
           bits_per_value(parameter_.communicate) / 8;
  }

 private:
  void step_with(const std::function<void(const Stored& gradient)>& before) {
    allocate_finished_gradient(run_, parameter_);
    if (before) before({parameter_.gradient(), parameter_.communicate});
    optimizer_->update(run_, parameter_, {.lr = 1e-5f, .step = step_++});
    forget_step(parameter_);
  }
  // Weights and gradients N(0, kSize²); moments are made by the steps themselves.
  void fill() {
    run_.replay(program_, [&] {
      step_with([&](const Stored& gradient) {
        const TemporaryTensor values(run_.backend(), gradient.view.rows, gradient.view.cols);
        const auto normal = [&](uint32_t tensor) {
          run_.execute(FillNormal{values.view(), kSize, {.seed = 1, .tensor = tensor}});
        };
        normal(1);
        put_weight(run_, parameter_.weight, values.view());
        normal(2);
        run_.execute(Store{.y = gradient, .x = values.view(), .key = {}});
      });
    });
  }

  Run run_;
  std::unique_ptr<Optimizer> optimizer_;
  Parameter parameter_;
  Program program_;
  int64_t step_ = 0;
};

/// Two matrices of FP32 that take as much memory as weight, moments and gradient of AdamW in FP32,
/// and what the machine's memory gives.
class TimedLimits {
 public:
  explicit TimedLimits(const UpdateSpeedRun& speed)
      : run_(make_backend("cpu", speed.threads), 1), elements_(2 * speed.rows * speed.cols) {
    for (View* view : {&x_, &y_})
      *view = run_.persistent({.name = view == &x_ ? "x" : "y",
                               .owner = "limits",
                               .kind = MemoryKind::state,
                               .element = &fp32_format(),
                               .rows = 2 * speed.rows,
                               .cols = speed.cols});
    run_.execute(Fill{.x = x_, .value = 0});  // so that its pages are there
    measure();
  }
  void measure() {
    copy_ = std::min(copy_, seconds_per_call([&] { run_.execute(Copy{.y = y_, .x = x_}); },
                                             kLeastUpdateSeconds));
    add_ = std::min(add_, seconds_per_call([&] { run_.execute(Add{.y = y_, .a = y_, .b = x_}); },
                                           kLeastUpdateSeconds));
  }
  [[nodiscard]] UpdateSpeed copy() const { return {"copy", rate(copy_), 8}; }
  [[nodiscard]] UpdateSpeed add() const { return {"add", rate(add_), 12}; }

 private:
  [[nodiscard]] double rate(double seconds) const {
    return static_cast<double>(elements_) / seconds;
  }

  Run run_;
  int64_t elements_;
  View x_, y_;
  double copy_ = 1e30, add_ = 1e30;
};

}  // namespace

double UpdateSpeeds::bandwidth() const {
  return std::max(copy.bytes_per_second(), add.bytes_per_second());
}

UpdateSpeeds update_speeds(const UpdateSpeedRun& run) {
  std::vector<UpdateCase> cases = update_cases();
  const std::string first = cases.front().name;
  const auto is_wanted = [&](const UpdateCase& each) {
    return each.name.find(run.filter) != std::string::npos;
  };
  if (std::none_of(cases.begin(), cases.end(), is_wanted))
    throw Error({.place = "--filter",
                 .key = "",
                 .problem = fmt::format("no update's name contains \"{}\"", run.filter),
                 .remedy = "a part of one, as the table without --filter shows them"});
  TimedLimits limits(run);
  UpdateSpeeds speeds;
  for (const UpdateCase& each : cases) {
    if (each.name != first && !is_wanted(each)) continue;
    TimedUpdate update(each, run);
    double seconds = 1e30;
    for (int round = 0; round < run.rounds; ++round)
      seconds = std::min(seconds, seconds_per_call([&] { update.step(); }, kLeastUpdateSeconds));
    limits.measure();  // between all updates, so that they see the same neighbours
    speeds.updates.push_back({each.name, static_cast<double>(run.rows * run.cols) / seconds,
                              update.bytes_per_element()});
  }
  speeds.copy = limits.copy();
  speeds.add = limits.add();
  return speeds;
}

}  // namespace ng
