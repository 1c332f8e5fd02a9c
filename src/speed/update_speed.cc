#include "speed/update_speed.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "run/backends.h"
#include "run/run.h"
#include "speed/timing.h"

namespace ng {
namespace {

constexpr double kLeastSeconds = 2e-3;  // of one measurement
constexpr float kSize = 0.02f;          // standard deviation of weights and gradients

/// A row of the page.
struct UpdateCase {
  std::string name;
  OptimizerRule optimizer = OptimizerRule::adamw;
  Operand storage = operand_of("fp32");
  std::optional<Operand> master = {};
  UpdateRule rule = UpdateRule::nearest;
  const char* carry = nullptr;  ///< its element; null: none
  bool feedback = false;
  Operand moment1 = operand_of("fp32"), moment2 = operand_of("fp32");
};

Operand with_pow2_scale(const char* format) {
  Operand cast = operand_of(format);
  cast.scale = ScaleKind::pow2;
  return cast;
}

Operand drawn(const char* format) { return operand_of(format).rounded_by(Rounding::stochastic); }

/// Every rule on one storage.
void add_rules(std::vector<UpdateCase>& all, const std::string& name, const Operand& storage) {
  const auto add = [&](const char* rule_name, UpdateRule rule, const char* carry = nullptr,
                       bool feedback = false) {
    all.push_back({.name = fmt::format("{} {}", name, rule_name),
                   .storage = storage,
                   .rule = rule,
                   .carry = carry,
                   .feedback = feedback});
  };
  add("nearest", UpdateRule::nearest);
  add("stochastic", UpdateRule::stochastic);
  add("kahan", UpdateRule::kahan, "bf16");
  add("residual 8", UpdateRule::residual, "int8");
  add("residual 4", UpdateRule::residual, "int4");
  add("precision_aware", UpdateRule::precision_aware);
  add("stochastic, momentum_feedback", UpdateRule::stochastic, nullptr, true);
}

/// The recipes' storages and states, AdamW in FP32 first. [recipes.md §7]
std::vector<UpdateCase> update_cases() {
  Operand blocks = drawn("fp8_e4m3");
  blocks.scale = ScaleKind::fp32;
  blocks.block = {.kind = Block::Kind::tile, .rows = 1, .cols = 128};
  std::vector<UpdateCase> all = {{.name = "fp32"}};
  add_rules(all, "bf16", operand_of("bf16"));
  add_rules(all, "fp8_e4m3 pow2", with_pow2_scale("fp8_e4m3"));
  all.push_back(
      {.name = "bf16, master fp32", .storage = operand_of("bf16"), .master = operand_of("fp32")});
  all.push_back({.name = "fp8-lm: fp8_e4m3, master fp16, moments fp8_e4m3, fp16",
                 .storage = with_pow2_scale("fp8_e4m3"),
                 .master = with_pow2_scale("fp16"),
                 .moment1 = with_pow2_scale("fp8_e4m3"),
                 .moment2 = with_pow2_scale("fp16")});
  all.push_back({.name = "adamw-fp8-states: fp32, moments fp8_e4m3 1x128, bf16",
                 .moment1 = blocks,
                 .moment2 = drawn("bf16")});
  all.push_back({.name = "sgd fp32", .optimizer = OptimizerRule::sgd});
  return all;
}

/// Bytes of each element of a tensor, with its scales.
double stored_bytes(const View& view, const Operand& cast) {
  if (view.rows == 0) return 0;
  double bits = view.element->bits;
  if (view.has_scales()) {
    const ScaleShape scales = scale_shape(cast, view.rows, view.cols);
    bits += static_cast<double>(scales.rows * scales.cols) * view.scales.element->bits /
            static_cast<double>(view.size());
  }
  return bits / 8;
}

/// A weight with everything that its update needs.
class TimedUpdate {
 public:
  TimedUpdate(const UpdateCase& update, const UpdateSpeedRun& speed)
      : run_(make_backend("cpu", speed.threads), 1), speed_(speed) {
    op_.optimizer = update.optimizer;
    op_.weight.rule = update.rule;
    op_.weight.momentum_feedback = update.feedback;
    op_.weight.value = stored("weight", update.storage);
    if (update.master) op_.weight.master = stored("master", *update.master);
    if (update.carry != nullptr)
      op_.weight.carry = run_.persistent(spec("carry", element_format(update.carry)));
    op_.moment1 = stored("moment1", update.moment1);
    if (update.optimizer == OptimizerRule::adamw) op_.moment2 = stored("moment2", update.moment2);
    grad_ = run_.persistent(spec("grad", fp32_format()));
    op_.grad = grad_;
    // With ε of the gradient's size steps differ from weight to weight though every call has the
    // same gradient.
    op_.numbers = {.lr = 1e-5f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = kSize, .weight_decay = 0.1f};
    fill();
  }

  void step() {
    ++op_.key.step;
    run_.execute(op_);
  }
  [[nodiscard]] double bytes_per_element() const {
    const UpdatedWeight& weight = op_.weight;
    const double value = stored_bytes(weight.value.view, weight.value.cast);
    double both_ways = stored_bytes(weight.carry, {}) +
                       stored_bytes(op_.moment1.view, op_.moment1.cast) +
                       stored_bytes(op_.moment2.view, op_.moment2.cast);
    both_ways += weight.master ? stored_bytes(weight.master.view, weight.master.cast) : value;
    return 2 * both_ways + (weight.master ? value : 0) + stored_bytes(grad_, {});
  }

 private:
  [[nodiscard]] PersistentSpec spec(const char* name, const ElementFormat& element) const {
    return {.name = name,
            .owner = "weight",
            .kind = MemoryKind::state,
            .element = &element,
            .rows = speed_.rows,
            .cols = speed_.cols};
  }
  [[nodiscard]] Stored stored(const char* name, const Operand& cast) {
    return run_.stored(spec(name, *cast.element), cast);
  }
  // Weights and gradients N(0, kSize²); moments are made by the steps themselves.
  void fill() {
    const auto normal = [&](uint32_t tensor) {
      run_.execute(FillNormal{grad_, kSize, {.seed = 1, .tensor = tensor}});
    };
    normal(1);
    for (const Stored& weight : {op_.weight.master, op_.weight.value})
      if (weight)
        run_.execute(Store{.y = weight.rounded_by(Rounding::nearest), .x = grad_, .key = {}});
    normal(2);
  }

  Run run_;
  const UpdateSpeedRun& speed_;
  View grad_;
  Update op_;
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
    copy_ = std::min(
        copy_, seconds_per_call([&] { run_.execute(Copy{.y = y_, .x = x_}); }, kLeastSeconds));
    add_ = std::min(add_, seconds_per_call([&] { run_.execute(Add{.y = y_, .a = y_, .b = x_}); },
                                           kLeastSeconds));
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
    update.step();  // its pages are there, its moments are no zeros
    double seconds = 1e30;
    for (int round = 0; round < run.rounds; ++round)
      seconds = std::min(seconds, seconds_per_call([&] { update.step(); }, kLeastSeconds));
    limits.measure();  // between all updates, so that they see the same neighbours
    speeds.updates.push_back({each.name, static_cast<double>(run.rows * run.cols) / seconds,
                              update.bytes_per_element()});
  }
  speeds.copy = limits.copy();
  speeds.add = limits.add();
  return speeds;
}

}  // namespace ng
