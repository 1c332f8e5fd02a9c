// Elements to codes by lookups within registers and by the arithmetic of their fields: one load for
// every element took half of the time of a cast.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/quantize/byte_codes.cc"
#include <hwy/foreach_target.h>  // once per instruction set
#include <hwy/highway.h>

#include "backend/cpu/quantize/byte_codes.h"
#include "base/error.h"
#include "format/codec.h"
#include "math/round.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void IntegersOneByOne(const IntegerCodes& table, const int8_t* from, int64_t count,
                      uint8_t* codes) {
  for (int64_t i = 0; i < count; ++i) codes[i] = table.codes[static_cast<uint8_t>(from[i])];
}

void PatternsOneByOne(const PatternCodes& rule, const uint16_t* from, int64_t count,
                      uint8_t* codes) {
  for (int64_t i = 0; i < count; ++i) codes[i] = static_cast<uint8_t>(rule.table[from[i]]);
}

#if HWY_TARGET == HWY_SCALAR

void CodesOfIntegers(const IntegerCodes& table, const int8_t* from, int64_t count, uint8_t* codes) {
  IntegersOneByOne(table, from, count, codes);
}

void CodesOfPatterns(const PatternCodes& rule, const uint16_t* from, int64_t count,
                     uint8_t* codes) {
  PatternsOneByOne(rule, from, count, codes);
}

#else

// A lookup among sixteen bytes for every upper half of a byte that occurs.
void CodesOfIntegers(const IntegerCodes& table, const int8_t* from, int64_t count, uint8_t* codes) {
  const hn::ScalableTag<uint8_t> d;
  const auto lower_half = hn::Set(d, 0x0F);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto v = hn::LoadU(d, reinterpret_cast<const uint8_t*>(from + i));
    const auto low = hn::And(v, lower_half);
    const auto high = hn::AndNot(lower_half, v);
    auto code = hn::Zero(d);
    for (uint32_t left = table.used; left != 0; left &= left - 1) {
      const auto half = static_cast<uint8_t>(hwy::Num0BitsBelowLS1Bit_Nonzero32(left) << 4);
      const auto found = hn::TableLookupBytes(hn::LoadDup128(d, &table.codes[half]), low);
      code = hn::IfThenElse(hn::Eq(high, hn::Set(d, half)), found, code);
    }
    hn::StoreU(code, d, codes + i);
  }
  IntegersOneByOne(table, from + i, count - i, codes + i);
}

// A subnormal number's code is how many subnormal magnitudes are no larger.
void CodesOfPatterns(const PatternCodes& rule, const uint16_t* from, int64_t count,
                     uint8_t* codes) {
  const hn::ScalableTag<int16_t> d;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto magnitude_mask = hn::Set(d, 0x7FFF), largest = hn::Set(d, 0x7F7F);
  const auto below_normal = hn::Set(d, static_cast<int16_t>(rule.least_normal - 1));
  const auto rebias = hn::Set(d, rule.rebias), sign = hn::Set(d, rule.sign);
  const auto minus_zero = hn::Set(d, INT16_MIN), of_minus_zero = hn::Set(d, rule.negative_zero);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto v = hn::LoadU(d, reinterpret_cast<const int16_t*>(from + i));
    const auto magnitude = hn::And(v, magnitude_mask);
    if (!hn::AllFalse(d, hn::Gt(magnitude, largest))) {
      PatternsOneByOne(rule, from + i, lanes, codes + i);
      continue;
    }
    auto small = hn::Zero(d);
    for (const int16_t least : rule.subnormals)
      small = hn::Sub(
          small,
          hn::VecFromMask(d, hn::Gt(magnitude, hn::Set(d, static_cast<int16_t>(least - 1)))));
    const auto normal = hn::Sub(hn::ShiftRightSame(magnitude, 7 - rule.mantissa_bits), rebias);
    auto code = hn::IfThenElse(hn::Gt(magnitude, below_normal), normal, small);
    code = hn::Or(code, hn::And(hn::BroadcastSignBit(v), sign));
    code = hn::IfThenElse(hn::Eq(v, minus_zero), of_minus_zero, code);
    hn::StoreU(hn::DemoteTo(bytes, code), bytes, codes + i);
  }
  PatternsOneByOne(rule, from + i, count - i, codes + i);
}

#endif

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
namespace {

HWY_EXPORT(CodesOfIntegers);
HWY_EXPORT(CodesOfPatterns);

constexpr int kBf16Bias = 127, kBf16MantissaBits = 7;

}  // namespace

void codes_of_integers(const IntegerCodes& table, const int8_t* from, int64_t count,
                       uint8_t* codes) {
  HWY_DYNAMIC_DISPATCH(CodesOfIntegers)(table, from, count, codes);
}

void codes_of_patterns(const PatternCodes& rule, const uint16_t* from, int64_t count,
                       uint8_t* codes) {
  HWY_DYNAMIC_DISPATCH(CodesOfPatterns)(rule, from, count, codes);
}

bool has_pattern_codes(const ElementFormat& element) {
  return element.kind == ElementKind::floating && element.bits <= 8 &&
         element.mantissa_bits <= kBf16MantissaBits &&
         element.bias + element.mantissa_bits < kBf16Bias && element.exponent_bits < 8;
}

PatternCodes pattern_codes(const ElementFormat& element, const uint16_t* table) {
  NG_CHECK(has_pattern_codes(element), element.name);
  PatternCodes rule;
  rule.mantissa_bits = element.mantissa_bits;
  rule.least_normal = static_cast<int16_t>((kBf16Bias + 1 - element.bias) << kBf16MantissaBits);
  rule.rebias = static_cast<int16_t>((kBf16Bias - element.bias) << element.mantissa_bits);
  rule.sign = element.is_signed ? static_cast<uint8_t>(1u << (element.bits - 1)) : 0;
  rule.negative_zero = static_cast<uint8_t>(table[0x8000]);
  for (uint32_t code = 1; code < 1u << element.mantissa_bits; ++code)
    rule.subnormals.push_back(static_cast<int16_t>(float_bits(decode(element, code)) >> 16));
  rule.table = table;
  return rule;
}

}  // namespace ng::cpu
#endif
