#include "backend/cpu/update/coded_blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/update/coded_blocks.cc"
#include <hwy/foreach_target.h>  // once per instruction set

#include "backend/cpu/quantize/element-inl.h"
#include "backend/cpu/simd/exp64-inl.h"
#include "backend/cpu/simd/kernel-inl.h"
#include "backend/cpu/simd/table-inl.h"
#include "math/log.h"
#include "math/round.h"

#ifndef NG_BACKEND_CPU_UPDATE_CODED_BLOCKS_ONCE
#define NG_BACKEND_CPU_UPDATE_CODED_BLOCKS_ONCE
namespace ng::cpu {

/// Integers ordered like the FP32 numbers that have these bits, NaN at the ends.
constexpr int32_t ordered_bits(float x) {
  const auto bits = static_cast<int32_t>(float_bits(x));
  return bits < 0 ? bits ^ 0x7FFFFFFF : bits;
}

/// The map's midpoints as CountBelow<16> wants them.
struct alignas(64) MapTables {
  int32_t at[16][16];

  static const MapTables& of(bool is_positive) {
    static const MapTables tables[] = {MapTables(false), MapTables(true)};
    return tables[is_positive ? 1 : 0];
  }

 private:
  explicit MapTables(bool is_positive) : at{} {
    const auto& middles = DynamicMap::of(is_positive).middles();
    for (size_t i = 0; i < middles.size(); ++i) at[i % 16][i / 16] = ordered_bits(middles[i]);
  }
};

/// A number of E4M3, or one halfway between two, as (1 + sixteenths / 16) · 2^exponent.
struct E4m3Factors {
  int sixteenths = 0, exponent = 0;
};
/// Of n · 2^exponent, n from 1 to 31.
constexpr E4m3Factors factors_of(unsigned n, int exponent) {
  const int width = std::bit_width(n);
  return {static_cast<int>((n << 5) >> width) - 16, exponent + width - 1};
}

constexpr auto kLogsOfSixteenths = [] {
  std::array<double, 16> logs{};
  for (int i = 0; i < 16; ++i) logs[static_cast<size_t>(i)] = math::log(1 + i / 16.0);
  return logs;
}();

}  // namespace ng::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

HWY_INLINE I16 LoadCodes(const uint8_t* from, int64_t left) {
  alignas(16) uint8_t padded[kLanes] = {};
  if (left < kLanes) from = std::copy_n(from, left, padded) - left;
  return ForParts<I16>([&](size_t p) HWY_ATTR {
    const hn::Rebind<uint8_t, I16::Tag> bytes;
    return hn::PromoteTo(I16::Tag(), hn::LoadU(bytes, from + p * I16::kWidth));
  });
}

HWY_INLINE I16 Magnitude(F16 x) { return Bits<int32_t>(Abs(x)); }

void Range(const float* values, int64_t count, int32_t* most, int32_t* least) {
  const I16 zero = Zero16<int32_t>(), none = Set16(static_cast<int32_t>(kFloatInf));
  I16 high = zero, low = none;
  ForLanes(count, [&](int64_t i, auto left) HWY_ATTR {
    const I16 a = Magnitude(Load16(values + i, left));
    const auto is_nan = Gt(a, none);
    high = Max(high, Select(is_nan, zero, a));
    low = Min(low, Select(Eq(a, zero), none, a));  // of NaN no minimum
  });
  alignas(64) int32_t lane[kLanes];
  Store16(high, lane);
  *most = *std::max_element(lane, lane + kLanes);
  Store16(low, lane);
  *least = *std::min_element(lane, lane + kLanes);
}

// ---------------------------------------------------------------- a power of the values

// (number · scale)^(1/power) · center of numbers (1 + i/16) · 2^e.
struct Powers {
  static constexpr int kLeast = -10, kMost = 8;  // of e
  alignas(64) double of_sixteenths[kLanes];
  double of_exponent[kMost - kLeast + 1];

  HWY_INLINE explicit Powers(const Expansion& e) {
    const double inverse = 1 / double{e.power}, log_scale = math::log(double{e.scale});
    const D16 logs = Add(Load16(kLogsOfSixteenths.data()), Set16(log_scale));
    Store16(Mul(Exp(Mul(logs, Set16(inverse))), Set16(double{e.center})), of_sixteenths);
    const double log_step = math::log(2.0) * inverse;
    const double up = math::exp(log_step), down = math::exp(-log_step);
    double* const one = of_exponent - kLeast;
    *one = 1;
    for (int i = 1; i <= kMost; ++i) one[i] = one[i - 1] * up;
    for (int i = -1; i >= kLeast; --i) one[i] = one[i + 1] * down;
  }
  [[nodiscard]] HWY_INLINE double of(E4m3Factors f) const {
    return of_sixteenths[f.sixteenths] * of_exponent[f.exponent - kLeast];
  }
  // Of the sixteen exponent fields of E4M3; the first is that of subnormals.
  [[nodiscard]] HWY_INLINE D16 of_fields(int sixteenths) const {
    return Mul(Set16(of_sixteenths[sixteenths]), Load16(of_exponent - kLeast - 7));
  }
};

// [mantissa][exponent field]: what a code, or the place between it and the next, has.
struct alignas(64) CodeTables {
  float at[8][kLanes];
};

HWY_INLINE void StoreAsFloats(const D16& x, float* to) {
  for (int p = 0; p < D16::kParts; ++p) {
#if HWY_TARGET == HWY_SCALAR  // where Highway's conversion saturates
    to[p] = static_cast<float>(hn::GetLane(x.part[p]));
#else
    const hn::Rebind<float, D16::Tag> half;
    hn::StoreU(hn::DemoteTo(half, x.part[p]), half, to + p * D16::kWidth);
#endif
  }
}

// Without a branch, which no CPU could foresee.
HWY_INLINE float NotAbove(double x) {
  const auto nearest = static_cast<float>(x);
  return float_of_bits(float_bits(nearest) - static_cast<uint32_t>(nearest > x));
}

// The largest FP32 numbers that are not above x >= 0. What has more bits than they do is cut off,
// where they are normal.
HWY_INLINE void StoreNotAbove(const D16& x, float* to) {
  constexpr double kLeast = 0x1p-126, kLargest = kFloatMax;
  const bool are_normal =
      !AnyTrue(Lt(x, Set16(kLeast))) && !AnyTrue(Gt(x, Set16(kLargest))) && !AnyTrue(Ne(x, x));
  if (are_normal) {
    const auto bits = ForParts<Lanes16<int64_t>>([&](size_t p) HWY_ATTR {
      const Lanes16<int64_t>::Tag d;
      return hn::And(hn::BitCast(d, x.part[p]), hn::Set(d, ~int64_t{0x1FFFFFFF}));
    });
    return StoreAsFloats(Bits<double>(bits), to);
  }
  alignas(64) double lane[kLanes];
  Store16(x, lane);
  for (int l = 0; l < kLanes; ++l) to[l] = NotAbove(lane[l]);
}

// The values of codes 0 ... 127.
HWY_INLINE CodeTables ValuesOf(const Expansion& expansion) {
  const Powers powers(expansion);
  CodeTables values;
  for (int m = 0; m < 8; ++m) {
    StoreAsFloats(powers.of_fields(2 * m), values.at[m]);
    if (m > 0) values.at[m][0] = static_cast<float>(powers.of(factors_of(unsigned(m), -9)));
  }
  values.at[0][0] = 0;
  values.at[7][15] = std::numeric_limits<float>::quiet_NaN();
  return values;
}

// What is halfway from them to the next, in x.
HWY_INLINE CodeTables LimitsOf(const Expansion& expansion) {
  const Powers powers(expansion);
  CodeTables limits;
  for (int m = 0; m < 8; ++m) {
    StoreNotAbove(powers.of_fields(2 * m + 1), limits.at[m]);
    limits.at[m][0] = NotAbove(powers.of(factors_of(unsigned(2 * m + 1), -10)));
  }
  limits.at[6][15] = limits.at[7][15] = std::numeric_limits<float>::infinity();
  return limits;
}

void ReadExpanded(const Expansion& expansion, const uint8_t* codes, int64_t count, float* values) {
  const CodeTables meant = ValuesOf(expansion);
  ForLanes(count, [&](int64_t i, auto left) HWY_ATTR {
    const I16 code = LoadCodes(codes + i, left);
    const I16 field = And(ShiftRight<3>(code), Set16(15));
    const I16 sign = ShiftLeft<24>(And(code, Set16(0x80)));
    const I16 value = Or(LookUpIn<8, 1>(meant.at, code, field), sign);
    Store16(Bits<float>(value), values + i, left);
  });
}

void WriteExpanded(const Expansion& expansion, const float* values, int64_t count, uint8_t* codes) {
  const CodeTables limits = LimitsOf(expansion);
  ForLanes(count, [&](int64_t i, auto left) HWY_ATTR {
    const F16 x = Load16(values + i, left);
    const U16 below = Bits<uint32_t>(CountBelow<8>(limits.at, Magnitude(x)));
    const U16 sign = And(ShiftRight<24>(Bits<uint32_t>(x)), Set16(0x80u));
    StoreLow(Or(below, sign), codes + i, left);
  });
}

// ---------------------------------------------------------------- 256 values

// What is beyond ±1 is beyond all midpoints.
void WriteMapped(const MapTables& middles, float inverse, const float* values, int64_t count,
                 uint8_t* codes) {
  ForLanes(count, [&](int64_t i, auto left) HWY_ATTR {
    const F16 x = Load16(values + i, left);
    const F16 y = Select(Eq(x, Zero16()), Zero16(), Mul(x, Set16(inverse)));
    const I16 bits = Bits<int32_t>(y);
    const I16 ordered = Xor(bits, And(ShiftRight<31>(bits), Set16(0x7FFFFFFF)));
    StoreLow(Bits<uint32_t>(CountBelow<16>(middles.at, ordered)), codes + i, left);
  });
}

// ---------------------------------------------------------------- two parts

void ReadTwoParts(const Bf16* high, const Bf16* low, int64_t count, float* values) {
  ForLanes(count, [&](int64_t i, auto left) HWY_ATTR {
    Store16(Add(Load16(high + i, left), Load16(low + i, left)), values + i, left);
  });
}

// x within ±most; NaN stays.
HWY_INLINE F16 Within(F16 x, F16 most) {
  return Select(Lt(most, x), most, Select(Lt(x, Neg(most)), Neg(most), x));
}

void WriteTwoParts(float largest, const float* values, int64_t count, Bf16* high, Bf16* low) {
  const F16 most = Set16(largest);
  ForLanes(count, [&](int64_t i, auto left) HWY_ATTR {
    const F16 x = Load16(values + i, left);
    const F16 first = RoundToBf16(Within(x, most));
    Store16(first, high + i, left);
    Store16(Within(Sub(x, first), most), low + i, left);
  });
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(Range);
HWY_EXPORT(ReadExpanded);
HWY_EXPORT(WriteExpanded);
HWY_EXPORT(WriteMapped);
HWY_EXPORT(ReadTwoParts);
HWY_EXPORT(WriteTwoParts);

BlockRange block_range(const float* values, int64_t count) {
  int32_t most = 0, least = 0;
  HWY_DYNAMIC_DISPATCH(Range)(values, count, &most, &least);
  const auto bits = static_cast<uint32_t>(least);
  return {float_of_bits(static_cast<uint32_t>(most)), bits == kFloatInf ? 0 : float_of_bits(bits)};
}
void read_expanded_block(const Expansion& expansion, const uint8_t* codes, int64_t count,
                         float* values) {
  HWY_DYNAMIC_DISPATCH(ReadExpanded)(expansion, codes, count, values);
}
void write_expanded_block(const Expansion& expansion, const float* values, int64_t count,
                          uint8_t* codes) {
  HWY_DYNAMIC_DISPATCH(WriteExpanded)(expansion, values, count, codes);
}
void write_mapped_block(bool is_positive, float inverse, const float* values, int64_t count,
                        uint8_t* codes) {
  HWY_DYNAMIC_DISPATCH(WriteMapped)(MapTables::of(is_positive), inverse, values, count, codes);
}
void read_two_parts(const Bf16* high, const Bf16* low, int64_t count, float* values) {
  HWY_DYNAMIC_DISPATCH(ReadTwoParts)(high, low, count, values);
}
void write_two_parts(float most, const float* values, int64_t count, Bf16* high, Bf16* low) {
  HWY_DYNAMIC_DISPATCH(WriteTwoParts)(most, values, count, high, low);
}

}  // namespace ng::cpu
#endif
