#include "backend/ref/update/store.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/gradient_scale.h"
#include "backend/ref/number.h"
#include "backend/ref/operand.h"
#include "backend/ref/update/coded.h"
#include "format/scale.h"

namespace ng::ref {
namespace {

void put_codes(const View& y, const OperandParts& parts) {
  const ElementCodec codec(*y.element);
  const int bits = y.element->bits;
  for (int64_t r = 0; r < y.rows; ++r)
    for (int64_t c = 0; c < y.cols; ++c) {
      // Decoded codes are fixed points of the encoder; `special` keeps infinities.
      const uint32_t code = codec.encode(parts.elements[r * y.cols + c], {}, OverflowRule::special);
      set_code(y.data, (r * y.stride + c) * bits, bits, code);
    }
}

/// The largest magnitude; NaN where one is not finite.
float amax_of(std::span<const float> values) {
  float amax = 0;
  for (const float x : values) {
    if (!std::isfinite(x)) return float_of_bits(0x7FC00000u);
    amax = std::max(amax, std::fabs(x));
  }
  return amax;
}

void put_scales(const View& y, const OperandParts& parts) {
  const ElementCodec codec(*y.scales.element);
  const int bits = y.scales.element->bits;
  for (int64_t i = 0; i < parts.scale_rows * parts.scale_cols; ++i)
    set_code(y.scales.data, i * bits, bits,
             codec.encode(parts.scales[i], {}, OverflowRule::special));
  if (y.scales.tensor != nullptr) *y.scales.tensor = *parts.tensor_scales;
}

}  // namespace

std::vector<float> values_of(const ConstView& x) {
  std::vector<float> values;
  values.reserve(static_cast<size_t>(x.size()));
  const Reader read(x);
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t c = 0; c < x.cols; ++c) values.push_back(read(r, c));
  return values;
}

void store(const Stored& y, std::span<const float> values, const RandomKey& key, float encode_scale,
           float amax) {
  NG_CHECK(std::ssize(values) == y.view.size() && y.view.is(*y.cast.element), y.view.rows,
           y.view.cols, values.size());
  NG_CHECK(y.view.has_scales() == !y.cast.is_unscaled(), y.cast.element->name);
  if (y.view.low != nullptr) return store_in_parts(y, values);
  if (y.view.scales.coding != Coding::elements) return store_coded(y.view, values);
  OperandSpec spec{.cast = y.cast, .rows = y.view.rows, .k = y.view.cols, .hadamard = {}};
  if (encode_scale != 0 && !y.cast.is_unscaled()) spec.cast.scaling = Scaling::delayed;
  std::vector<float> storage(operand_bytes(spec) / sizeof(float));
  PackedOperand packed{.spec = spec,
                       .source = {},
                       .storage = reinterpret_cast<std::byte*>(storage.data()),
                       .bytes = storage.size() * sizeof(float)};
  prepare(packed, {values.data(), y.view.rows, y.view.cols, y.view.cols},
          {.key = key, .delayed = {&encode_scale, nullptr}, .update_history = false}, amax);
  const OperandParts parts = parts_of(packed);
  put_codes(y.view, parts);
  if (y.view.has_scales()) put_scales(y.view, parts);
}

float encode_scale_of(const Stored& y, std::span<const float> values, float amax) {
  if (y.cast.is_unscaled()) return 1.0f;
  NG_CHECK(y.cast.has_one_power_of_two(), y.cast.element->name);
  for (const float x : values) amax = std::max(amax, std::fabs(x));
  const float now = *reinterpret_cast<const float*>(y.view.scales.data);
  return sticky_encode_scale(1.0f / now, amax, range_of(*y.cast.element).max);
}

void store_weight(const Stored& y, std::span<const float> values, const RandomKey& key,
                  float amax) {
  store(y, values, key, y.cast.has_one_power_of_two() ? encode_scale_of(y, values, amax) : 0.0f,
        amax);
}

void perform(const Store& op) {
  NG_CHECK(same_shape(op.y.view, op.x), op.y.view.rows, op.y.view.cols, op.x.rows, op.x.cols);
  if (is_skipped(op.control)) return;
  store(op.y, values_of(op.x), op.key, 0, op.amax != nullptr ? *op.amax : 0);
}

void perform(const FindAmax& op) { *op.amax = amax_of(values_of(op.x)); }

void perform(const StoreGradient& op) {
  NG_CHECK(same_shape(op.y.view, op.x), op.y.view.rows, op.y.view.cols, op.x.rows, op.x.cols);
  const std::vector<float> values = values_of(op.x);
  const float own = amax_of(values), amax = op.amax != nullptr ? *op.amax : own;
  const bool is_finite = std::isfinite(own) && std::isfinite(amax);
  const float shared = is_finite ? amax : 0;
  const float encode_scale =
      has_one_float_scale(op.y.cast) ? shared_encode_scale(op.y.cast, shared, op.scale) : 0;
  store(op.y, values, op.key, encode_scale, shared);
  if (!is_finite) poison(op.y.view);
}

void perform(const MoveAutoScale& op) {
  if (is_skipped(op.control)) return;
  const ConstView& codes = op.codes;
  NG_CHECK(codes.element->bits == 8, codes.element->name);
  const ElementCodec codec(*codes.element);
  const float max = range_of(*codes.element).max;
  int64_t saturated = 0;
  for (int64_t r = 0; r < codes.rows; ++r)
    for (int64_t c = 0; c < codes.cols; ++c) {
      const uint32_t code = code_at(codes.data, (r * codes.stride + c) * 8, 8);
      saturated += std::fabs(codec.decode(code)) == max ? 1 : 0;
    }
  move_auto_scale(op, saturated, codes.size());
}

}  // namespace ng::ref
