#include "backend/ref/update/update.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "backend/ref/update/rules.h"
#include "format/codec.h"

namespace ng::ref {
namespace {

/// The whole tensor in FP32 while it is updated.
struct Tensors {
  std::vector<float> w;  ///< of the master, where there is one
  std::vector<float> m, v, g;
  [[nodiscard]] size_t size() const { return w.size(); }
};

RandomKey key_of(const Update& op, Purpose purpose) {
  RandomKey key = op.key;
  key.purpose = purpose;
  key.micro = 0;
  return key;
}

Tensors read(const Update& op) {
  const UpdatedWeight& weight = op.weight;
  Tensors t{.w = values_of(weight.master ? weight.master.view : weight.value.view),
            .m = values_of(op.moment1.view),
            .v = second_moments(op),
            .g = values_of(op.grad)};
  t.m.resize(t.size());
  t.v.resize(t.size());
  for (float& g : t.g) g *= op.grad_scale();
  return t;
}

/// With the moments of this step.
Tensors moved(const Update& op, const ElementRule& rule) {
  Tensors t = read(op);
  for (size_t i = 0; i < t.size(); ++i) rule.move(t.g[i], t.m[i], t.v[i]);
  return t;
}

std::vector<float> directions(const ElementRule& rule, const Tensors& t) {
  std::vector<float> u(t.size());
  for (size_t i = 0; i < u.size(); ++i) u[i] = rule.direction(t.w[i], t.m[i], t.v[i], t.g[i]);
  return u;
}

float largest(std::span<const float> values) {
  float largest = 0;
  for (const float x : values) largest = std::max(largest, std::fabs(x));
  return largest;
}

UpdateMaxima maxima_of(const Update& op) {
  return op.maxima != nullptr ? *op.maxima : UpdateMaxima{};
}

std::vector<float> new_weights(const ElementRule& rule, const Tensors& t) {
  std::vector<float> x(t.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = rule.new_weight(t.w[i], t.m[i], t.v[i], t.g[i]);
  return x;
}

/// What a master of one scale, or none, makes of its largest value.
float rounded_by(const Stored& master, float amax) {
  if (master.cast.is_fp32()) return amax;
  const float scale = *reinterpret_cast<const float*>(master.view.scales.data);
  const ElementCodec codec(*master.cast.element);
  return codec.decode(codec.encode(amax * (1.0f / scale))) * scale;
}

/// x in FP32, and into the master or the weight; the value is made of the master as it is stored.
void put_new_weights(const Update& op, const ElementRule& rule, const Tensors& t) {
  const std::vector<float> x = new_weights(rule, t);
  const float amax = maxima_of(op).weight;
  const Stored& master = op.weight.master;
  if (!master) return store_weight(op.weight.value, x, {}, amax);
  store(master, x, {}, 0, amax);
  const Stored value = op.weight.value.rounded_by(Rounding::nearest);
  const float of_value = amax == 0 ? 0 : rounded_by(master, amax);
  if (op.weight.keeps_scale) return store_weight(value, values_of(master.view), {}, of_value);
  store(value, values_of(master.view), {}, 0, of_value);
}

void put_with_feedback(const Update& op, const ElementRule& rule, Tensors& t) {
  const std::vector<float> x = new_weights(rule, t);
  const bool draws = op.weight.rule == UpdateRule::stochastic;
  store_weight(op.weight.value.rounded_by(draws ? Rounding::stochastic : Rounding::nearest), x,
               key_of(op, Purpose::weight_update));
  feed_back(op, x, t.v, t.m);
}

/// Returns α of precision_aware, else lr.
double put_by_rule(const Update& op, std::span<const float> w, std::span<const float> u) {
  const Before before{.w = w,
                      .u = u,
                      .lr = op.numbers.lr,
                      .key = key_of(op, Purpose::weight_update),
                      .amax = maxima_of(op).weight};
  switch (op.weight.rule) {
    case UpdateRule::kahan:
      round_kahan(op.weight, before);
      break;
    case UpdateRule::residual:
      round_residual(op.weight, before);
      break;
    case UpdateRule::precision_aware:
      return round_precision_aware(op.weight, before);
    case UpdateRule::stochastic:
      round_stochastic(op.weight, before);
      break;
    case UpdateRule::nearest:
      round_nearest(op.weight, before);
      break;
  }
  return before.lr;
}

void report(UpdateReport& report, std::span<const float> before, std::span<const float> after,
            std::span<const float> u, float lr) {
  for (size_t i = 0; i < u.size(); ++i) {
    const double change = static_cast<double>(after[i]) - before[i];
    const double wanted = static_cast<double>(lr) * u[i];
    report.update_squares += change * change;
    report.target_squares += wanted * wanted;
    report.product += change * wanted;
    report.changed += after[i] != before[i] ? 1 : 0;
  }
}

}  // namespace

std::vector<float> second_moments(const Update& op) {
  std::vector<float> kept = values_of(op.moment2.view);
  if (op.optimizer != OptimizerRule::adam_mini) return kept;
  std::vector<float> all;
  for (int64_t r = 0; r < op.grad.rows; ++r)
    all.insert(all.end(), static_cast<size_t>(op.grad.cols),
               kept[static_cast<size_t>(op.blocks.block_of(r))]);
  return all;
}

void perform(const FindUpdateMaxima& of) {
  *of.maxima = {};
  const Update& op = of.update;
  if (is_skipped(op.control) || !op.has_shared_scales()) return;
  const ElementRule rule(op.optimizer, op.numbers);
  const Tensors t = moved(op, rule);
  const bool is_direct = op.weight.master || op.weight.value.cast.is_fp32();
  const std::vector<float> u = directions(rule, t);
  *of.maxima = {
      .weight = largest(is_direct ? new_weights(rule, t)
                                  : sum_of({.w = t.w, .u = u, .lr = op.numbers.lr, .key = {}})),
      .moment1 = largest(t.m),
      .moment2 = largest(t.v)};
}

void perform(const Update& op) {
  op.check_shapes();
  if (is_skipped(op.control)) return;
  const ElementRule rule(op.optimizer, op.numbers);
  Tensors t = moved(op, rule);
  const std::vector<float> u = directions(rule, t);

  const std::vector<float> before = values_of(op.weight.value.view);
  double alpha = op.numbers.lr;
  if (op.weight.master || op.weight.value.cast.is_fp32())
    put_new_weights(op, rule, t);
  else if (op.weight.momentum_feedback)
    put_with_feedback(op, rule, t);
  else
    alpha = put_by_rule(op, t.w, u);

  const UpdateMaxima maxima = maxima_of(op);
  if (op.moment1) store(op.moment1, t.m, key_of(op, Purpose::moment1), 0, maxima.moment1);
  if (op.moment2 && op.optimizer != OptimizerRule::adam_mini)
    store(op.moment2, t.v, key_of(op, Purpose::moment2), 0, maxima.moment2);
  if (op.report == nullptr) return;
  *op.report = {.alpha = alpha};
  report(*op.report, before, values_of(op.weight.value.view), u, op.numbers.lr);
}

}  // namespace ng::ref
