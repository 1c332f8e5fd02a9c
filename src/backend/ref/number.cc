#include "backend/ref/number.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "format/dynamic_map.h"
#include "format/expansion.h"

namespace ng::ref {
namespace {

const ElementFormat& element_of(const ConstView& x) {
  return x.element == nullptr ? fp32_format() : *x.element;  // no rows: nothing is read
}

}  // namespace

uint32_t code_at(const std::byte* data, int64_t first, int bits) {
  uint64_t word = 0;
  const std::byte* from = data + first / 8;
  const auto shift = static_cast<int>(first % 8);
  for (int i = 0; 8 * i < shift + bits; ++i) word |= std::to_integer<uint64_t>(from[i]) << (8 * i);
  return static_cast<uint32_t>((word >> shift) & ((uint64_t{1} << bits) - 1));
}

void set_code(std::byte* data, int64_t first, int bits, uint32_t code) {
  std::byte* to = data + first / 8;
  const auto shift = static_cast<int>(first % 8);
  const uint64_t mask = ((uint64_t{1} << bits) - 1) << shift;
  const uint64_t word = uint64_t{code} << shift;
  for (int i = 0; 8 * i < shift + bits; ++i) {
    const auto kept = static_cast<std::byte>(~(mask >> (8 * i)) & 0xFF);
    to[i] = (to[i] & kept) | static_cast<std::byte>((word >> (8 * i)) & 0xFF);
  }
}

Reader::Reader(const ConstView& x, bool rounded)
    : x_(x),
      rounded_(rounded),
      fp32_(x.is(fp32_format()) && !x.has_scales()),
      bf16_(x.is(bf16_format()) && x.is_plain()),
      codec_(element_of(x)) {}

float Reader::decoded(int64_t row, int64_t col) const {
  const int bits = x_.element->bits;
  const int64_t first = (row * x_.stride + col) * bits;
  const uint32_t code = code_at(x_.data, first, bits);
  const float element = codec_.decode(code);
  if (x_.low != nullptr) return element + codec_.decode(code_at(x_.low, first, bits));
  if (!x_.has_scales()) return element;
  if (x_.scales.coding != Coding::elements) return of_coding(code, row, col);
  const float value = element * scale(row, col);
  return x_.scales.tensor == nullptr ? value : value * *x_.scales.tensor;
}

float Reader::of_coding(uint32_t code, int64_t row, int64_t col) const {
  const float block = scale(row, col);
  const Coding coding = x_.scales.coding;
  if (coding != Coding::expanded)
    return DynamicMap::of(coding == Coding::positive_dynamic).values()[code] * block;
  const int64_t at = x_.scale_index(row, col);
  const ExpandedValues values(
      {.scale = block, .power = x_.scales.power[at], .center = x_.scales.center[at]});
  return values.value(static_cast<uint8_t>(code));
}

float Reader::scale(int64_t row, int64_t col) const {
  const int bits = x_.scales.element->bits;
  return decode(*x_.scales.element, code_at(x_.scales.data, x_.scale_index(row, col) * bits, bits));
}

Writer::Writer(const View& y) : y_(y), now_(y), codec_(element_of(y)) {
  if (!y.is_plain())
    throw Unsupported(fmt::format("ref: {} {} as an output", y.element->name,
                                  y.has_scales() ? "with scales" : "in two parts"));
}

void Writer::put(int64_t row, int64_t col, float value) const {
  const int64_t at = row * y_.stride + col;
  if (y_.is(fp32_format())) {
    reinterpret_cast<float*>(y_.data)[at] = value;
  } else if (y_.is(bf16_format())) {
    reinterpret_cast<Bf16*>(y_.data)[at] = to_bf16(value);
  } else {
    const int bits = y_.element->bits;
    set_code(y_.data, at * bits, bits, codec_.encode(value, {}, OverflowRule::special));
  }
}

void put_amax(const ConstView& stored, StoredAmax* amax) {
  if (amax == nullptr) return;
  const Reader x(stored);
  bool has_nan = false;
  *amax = {};
  for (int64_t t = 0; t < x.rows(); ++t)
    for (int64_t c = 0; c < x.cols(); ++c) {
      amax->value = std::max(amax->value, std::fabs(x(t, c)));  // the first where the second is NaN
      has_nan = has_nan || std::isnan(x(t, c));
    }
  amax->or_infinite = has_nan ? std::numeric_limits<float>::infinity() : amax->value;
}

}  // namespace ng::ref
