#include "study/moved_weight.h"

#include <algorithm>
#include <cmath>

#include "format/codec.h"
#include "run/backends.h"
#include "run/transfer.h"

namespace ng::study {
namespace {

Operand weight_cast(std::string_view format, ScaleKind scale) {
  Operand cast = operand_of(format);
  cast.scale = scale;
  cast.overflow = Overflow::saturate;  // as weights are stored [errata-2, 21, 23]
  return cast;
}

// Spacing of the numbers around a stored value, in the units of the value: that of its binade, of
// subnormals the smallest. [errata-2, 21]
double ulp_at(const ElementFormat& element, float value, float encode_scale) {
  const float y = std::fabs(value) * encode_scale;  // a power of two: exact
  const int binade = y > 0 ? std::max(floor_log2(y), 1 - element.bias) : 1 - element.bias;
  return std::ldexp(1.0, binade - element.mantissa_bits) / encode_scale;
}

}  // namespace

std::span<const WeightFormat> weight_formats() {
  static const WeightFormat kFormats[] = {
      {"E4M3", weight_cast("fp8_e4m3", ScaleKind::none)},
      {"E4M3, pow2 scale", weight_cast("fp8_e4m3", ScaleKind::pow2)},
      {"FP16", weight_cast("fp16", ScaleKind::none)},
      {"BF16", weight_cast("bf16", ScaleKind::none)}};
  return kFormats;
}

std::span<const UpdateWay> update_ways() {
  static constexpr UpdateWay kWays[] = {
      {.name = "nearest"},
      {.name = "stochastic", .rule = UpdateRule::stochastic},
      {.name = "precision_aware", .rule = UpdateRule::precision_aware},
      {.name = kAsPrinted, .rule = UpdateRule::precision_aware, .search = StepSearch::printed},
      {.name = "kahan", .rule = UpdateRule::kahan, .carry = "bf16"},
      {.name = "residual 8", .rule = UpdateRule::residual, .carry = "int8"},
      {.name = "residual 4", .rule = UpdateRule::residual, .carry = "int4"},
      {.name = "fp32", .is_wide = true}};
  return kWays;
}

const UpdateWay& update_way(std::string_view name) {
  const std::span<const UpdateWay> ways = update_ways();
  const auto way = std::find_if(ways.begin(), ways.end(),
                                [&](const UpdateWay& each) { return each.name == name; });
  NG_CHECK(way != ways.end(), name);
  return *way;
}

MovedWeight::MovedWeight(const WeightFormat& format, const UpdateWay& way, int64_t rows,
                         int64_t cols, Threads threads)
    : run_(make_backend("cpu", threads), 1), way_(way) {
  const auto spec = [&](const char* name, const ElementFormat* element) {
    return PersistentSpec{.name = name,
                          .owner = "weight",
                          .kind = MemoryKind::weights,
                          .element = element,
                          .rows = rows,
                          .cols = cols};
  };
  value_ = run_.stored({spec("weight", nullptr), way.is_wide ? operand_of("fp32") : format.cast});
  if (way.carry != nullptr) carry_ = run_.persistent(spec("carry", &element_format(way.carry)));
  floats_ = run_.persistent(spec("floats", &fp32_format()));
  report_ = run_.persistent_values<UpdateReport>("report", 1);
}

void MovedWeight::put(std::span<const float> w) {
  run_.upload(floats_.as<float>().data, w);
  run_.execute(Store{.y = value_, .x = floats_, .key = {}});
  if (carry_.rows > 0) run_.execute(Clear{.bytes = {carry_.data, carry_.bytes()}});
}

void MovedWeight::step(std::span<const float> u, float lr, const RandomKey& key) {
  run_.upload(floats_.as<float>().data, u);
  run_.execute(
      Update{.optimizer = OptimizerRule::direction,
             .weight = {.value = value_, .carry = carry_, .rule = way_.rule, .search = way_.search},
             .grad = floats_,
             .numbers = {.lr = lr},
             .key = key,
             .report = report_});
}

UpdateReport MovedWeight::report() const { return run_.read(report_); }

std::vector<float> MovedWeight::decoded(const ConstView& stored) {
  run_.execute(Store{.y = stored_plainly(floats_), .x = stored, .key = {}});
  return run_.read(
      std::span<const float>(floats_.as<float>().data, static_cast<size_t>(floats_.size())));
}

std::vector<float> MovedWeight::values() { return decoded(value_.view); }

std::vector<double> MovedWeight::whole() {
  const std::vector<float> w = values();
  std::vector<double> whole(w.begin(), w.end());
  if (carry_.rows == 0) return whole;
  const ElementFormat& element = *value_.cast.element;
  const bool counts_units = carry_.element->kind == ElementKind::integer;
  const std::vector<float> carry =
      counts_units ? download(run_.backend(), carry_) : decoded(carry_);
  const float encode = encode_scale();
  for (size_t i = 0; i < whole.size(); ++i)
    whole[i] += counts_units
                    ? std::ldexp(carry[i] * ulp_at(element, w[i], encode), -carry_.element->bits)
                    : -static_cast<double>(carry[i]);
  return whole;
}

float MovedWeight::encode_scale() const {
  if (!value_.view.has_scales()) return 1;
  return 1 / run_.read(reinterpret_cast<const float*>(value_.view.scales.data));
}

}  // namespace ng::study
