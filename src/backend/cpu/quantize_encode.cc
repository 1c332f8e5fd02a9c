// Rounding a tile of scaled values to elements. Everything is arithmetic on powers of two, so each
// line is exact except the one that rounds; the bits equal encode + decode of format/codec.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/quantize_encode.cc"
#include <hwy/foreach_target.h>  // once per instruction set
#include <hwy/highway.h>

#include <algorithm>

#include "backend/cpu/lanes-inl.h"
#include "backend/cpu/quantize_kernels.h"
#include "base/error.h"
#include "math/round.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

using Kind = ElementGrid::Kind;

// ---------------------------------------------------------------- operations lanes-inl.h lacks

HWY_INLINE I16 Truncate(F16 a) {
  return ForParts<I16>([&](size_t p) HWY_ATTR { return hn::ConvertTo(I16::Tag(), a.part[p]); });
}
HWY_INLINE F16 Floor(F16 a) {
  return ForParts<F16>([&](size_t p) HWY_ATTR { return hn::Floor(a.part[p]); });
}
HWY_INLINE U16 LoadDraws(const uint16_t* from) {
  return ForParts<U16>([=](size_t p) HWY_ATTR {
    const hn::Rebind<uint16_t, U16::Tag> half;
    return hn::PromoteTo(U16::Tag(), hn::LoadU(half, from + p * U16::kWidth));
  });
}
// Stores the upper halves: BF16 patterns of values that are exact in BF16.
HWY_INLINE void StoreBf16(F16 v, uint16_t* to, int64_t count) {
  const U16 high = ShiftRight<16>(Bits<uint32_t>(v));
  alignas(32) uint16_t tail[kLanes];
  uint16_t* target = count >= kLanes ? to : tail;
  for (int p = 0; p < U16::kParts; ++p) {
    const hn::Rebind<uint16_t, U16::Tag> half;
#if HWY_TARGET == HWY_SCALAR
    target[p] = static_cast<uint16_t>(hn::GetLane(high.part[p]));
    (void)half;
#else
    hn::StoreU(hn::TruncateTo(half, high.part[p]), half, target + p * U16::kWidth);
#endif
  }
  if (count < kLanes) std::copy(tail, tail + count, to);
}

// ---------------------------------------------------------------- one vector of elements

// Constants of a grid and a tile, spread over the lanes.
struct Rules {
  F16 prescale, max, clip, lowest_binade;
  F16 magic;       // p · magic + x rounds x to the spacing of the binade p
  F16 spacing;     // 2^-mantissa_bits
  U16 to_integer;  // to_integer - bits(p) = 2^16 / spacing of binade p
  U16 draw_mask;   // of 16 bits those drawn, at the top: R · 2^(16 - r)
  bool divides;
};

HWY_INLINE Rules RulesOf(const ElementGrid& grid, const EncodeTile& tile) {
  const int m = grid.mantissa_bits;
  return {.prescale = Set16(tile.prescale),
          .max = Set16(grid.max),
          .clip = Set16(grid.clip),
          .lowest_binade = Set16(grid.lowest_binade),
          .magic = Set16(1.5f * pow2(23 - m)),
          .spacing = Set16(pow2(-m)),
          .to_integer = Set16(static_cast<uint32_t>(16 + m + 254) << 23),
          .draw_mask = Set16(tile.sr_bits == 8 ? 0xFF00u : 0xFFFFu),
          .divides = tile.divides};
}

// The binade of a magnitude, as the power of two it begins with.
HWY_INLINE F16 Binade(const Rules& k, F16 magnitude) {
  return Max(Bits<float>(And(Bits<uint32_t>(magnitude), Set16(kFloatInf))), k.lowest_binade);
}

// Nearest even: adding 1.5 · 2^23 spacings leaves no bits below the spacing. [formats.md §2.1]
HWY_INLINE F16 Nearest(const Rules& k, F16 magnitude) {
  const F16 magic = Mul(Binade(k, magnitude), k.magic);
  return Sub(Add(magnitude, magic), magic);
}

// floor(t·2^r) = n·2^r + F, so adding R carries into n iff F + R >= 2^r. R of r = 8 bits is one of
// 16 with eight zeros below, for F·2^8 + F' + R·2^8 >= 2^16 has the same answer. [formats.md §2.3]
HWY_INLINE F16 Stochastic(const Rules& k, F16 magnitude, U16 draw) {
  const F16 binade = Binade(k, magnitude);
  const F16 per_spacing = Bits<float>(Sub(k.to_integer, Bits<uint32_t>(binade)));
  const U16 scaled = Bits<uint32_t>(Truncate(Mul(magnitude, per_spacing)));
  const U16 n = ShiftRight<16>(Add(scaled, draw));
  return Mul(ToFloat(Bits<int32_t>(n)), Mul(binade, k.spacing));
}

// BF16 is FP32 without its lower half, subnormals included; what carries past the largest stays.
template <bool kStochastic>
HWY_INLINE F16 RoundBf16(F16 magnitude, U16 draw) {
  const U16 bits = Bits<uint32_t>(magnitude);
  const U16 odd = And(ShiftRight<16>(bits), Set16(1u));
  const U16 up = kStochastic ? draw : Add(Set16(0x7FFFu), odd);
  return Bits<float>(And(Add(bits, up), Set16(0xFFFF0000u)));
}

// What a kernel is compiled for.
struct Variant {
  Kind kind = Kind::small;
  bool stochastic = false;
  bool signed_zero = true;  // -0 is kept; else zeros are +0
};

// floor(y + R·2^-r) within ± the largest. [formats.md §6]
HWY_INLINE I16 FloorInteger(F16 y, F16 magnitude, U16 draw) {
  const F16 signed_y =
      Bits<float>(Or(Bits<uint32_t>(magnitude), And(Bits<uint32_t>(y), Set16(0x80000000u))));
  const F16 scaled = Floor(Mul(signed_y, Set16(0x1p16f)));
  return ShiftRight<16>(Add(Truncate(scaled), Bits<int32_t>(draw)));
}

template <Variant v>
HWY_INLINE F16 RoundElement(const Rules& k, F16 y, U16 draw) {
  const F16 magnitude = Min(Abs(y), k.clip);
  if constexpr (v.kind == Kind::integer && v.stochastic)
    return ToFloat(FloorInteger(y, magnitude, draw));
  F16 rounded;
  if constexpr (v.kind == Kind::bf16)
    rounded = Min(RoundBf16<v.stochastic>(magnitude, draw), k.clip);
  else if constexpr (v.kind == Kind::fp32)
    rounded = magnitude;
  else if constexpr (v.stochastic)
    rounded = Stochastic(k, magnitude, draw);
  else
    rounded = Nearest(k, magnitude);
  U16 sign = And(Bits<uint32_t>(y), Set16(0x80000000u));
  if constexpr (!v.signed_zero) {
    const M16 is_zero = Eq(rounded, Zero16());
    sign = Bits<uint32_t>(Select(is_zero, Zero16(), Bits<float>(sign)));
  }
  return Bits<float>(Or(Bits<uint32_t>(rounded), sign));
}

// ---------------------------------------------------------------- runs and tiles

template <Variant v>
constexpr int64_t kElementBytes = v.kind == Kind::fp16 || v.kind == Kind::fp32 ? 4 : 2;

template <Variant v>
HWY_INLINE void StoreElement(F16 element, void* out, int64_t i, int64_t left) {
  if constexpr (kElementBytes<v> == 4)
    Store16(element, static_cast<float*>(out) + i, left);
  else
    StoreBf16(element, static_cast<uint16_t*>(out) + i, left);
}

template <Variant v, bool kCounted>
HWY_INLINE void EncodeVector(const Rules& k, F16 value, F16 multiplier, U16 draw, void* out,
                             int64_t i, int64_t left, EncodeCounts& counts) {
  F16 y = Mul(value, k.prescale);
  y = !v.signed_zero && k.divides ? Div(y, multiplier) : Mul(y, multiplier);
  const F16 element = RoundElement<v>(k, y, draw);
  StoreElement<v>(element, out, i, left);
  if constexpr (kCounted) {
    counts.saturated += static_cast<uint64_t>(CountTrue(Gt(Abs(y), k.max)));
    const M16 was_zero = Eq(value, Zero16()), is_zero = Eq(element, Zero16());
    counts.flushed += static_cast<uint64_t>(CountTrue(AndNot(was_zero, is_zero)));
  }
}

template <Variant v>
HWY_INLINE U16 DrawsAt(const Rules& k, const uint16_t* draws, int64_t i) {
  if constexpr (!v.stochastic) return Zero16<uint32_t>();
  return And(LoadDraws(draws + i), k.draw_mask);
}

// `count` values of one scale.
template <Variant v, bool kCounted>
HWY_INLINE void EncodeRun(const Rules& k, const float* x, int64_t count, F16 multiplier,
                          const uint16_t* draws, void* out, EncodeCounts& counts) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    EncodeVector<v, kCounted>(k, Load16(x + i), multiplier, DrawsAt<v>(k, draws, i), out, i, kLanes,
                              counts);
  if (i < count)
    EncodeVector<v, kCounted>(k, Load16(x + i, count - i), multiplier, DrawsAt<v>(k, draws, i), out,
                              i, count - i, counts);
}

template <Variant v>
EncodeCounts EncodeRows(const ElementGrid& grid, const EncodeTile& tile) {
  const Rules k = RulesOf(grid, tile);
  EncodeCounts counts;
  const int64_t counted = std::clamp<int64_t>(tile.counted_cols, 0, tile.cols);
  for (int64_t r = 0; r < tile.rows; ++r) {
    const float* x = tile.values + r * tile.stride;
    const float* multiplier =
        tile.multipliers + r / tile.rows_per_multiplier * tile.multiplier_stride;
    const uint16_t* draws = v.stochastic ? tile.draws + r * tile.draw_stride : nullptr;
    auto* out = static_cast<std::byte*>(tile.out) + r * tile.out_stride * kElementBytes<v>;
    const auto run = [&]<bool kCounted>(int64_t from, int64_t to, F16 scale) HWY_ATTR {
      EncodeRun<v, kCounted>(k, x + from, to - from, scale, v.stochastic ? draws + from : nullptr,
                             out + from * kElementBytes<v>, counts);
    };
    for (int64_t c = 0; c < tile.cols; c += tile.block, ++multiplier) {
      const int64_t end = std::min(c + tile.block, tile.cols);
      const int64_t padding = std::clamp(counted, c, end);
      const F16 scale = Set16(*multiplier);
      run.template operator()<true>(c, padding, scale);
      if (padding < end) run.template operator()<false>(padding, end, scale);
    }
  }
  return counts;
}

template <Kind kKind, bool kSignedZero = true>
EncodeCounts EncodeRounding(const ElementGrid& grid, const EncodeTile& tile) {
  return tile.draws != nullptr ? EncodeRows<Variant{kKind, true, kSignedZero}>(grid, tile)
                               : EncodeRows<Variant{kKind, false, kSignedZero}>(grid, tile);
}

EncodeCounts Encode(const ElementGrid& grid, const EncodeTile& tile) {
  switch (grid.kind) {
    case Kind::small:
      return grid.has_negative_zero ? EncodeRounding<Kind::small>(grid, tile)
                                    : EncodeRounding<Kind::small, false>(grid, tile);
    case Kind::integer:
      return EncodeRounding<Kind::integer, false>(grid, tile);
    case Kind::bf16:
      return EncodeRounding<Kind::bf16>(grid, tile);
    case Kind::fp16:
      return EncodeRounding<Kind::fp16>(grid, tile);
    default:
      return EncodeRows<Variant{.kind = Kind::fp32}>(grid, tile);
  }
}

// ---------------------------------------------------------------- counting without encoding

HWY_INLINE uint64_t Total(U16 counts) {
  alignas(64) uint32_t lane[kLanes];
  Store16(counts, lane);
  uint64_t total = 0;
  for (const uint32_t l : lane) total += l;
  return total;
}

MagnitudeCounts CountMagnitudes(const float* x, int64_t count, float low, float high) {
  const U16 zero = Zero16<uint32_t>();
  U16 nonzero = zero, above_low = zero, above_high = zero, nonfinite = zero, nan = zero;
  // As integers, which also order NaN above Inf.
  const auto add_above = [](U16& counts, I16 bits, uint32_t limit) HWY_ATTR {
    const Mask16<int32_t> above = Gt(bits, Set16(static_cast<int32_t>(limit)));
    counts = Add(counts, Bits<uint32_t>(Select(above, Set16(1), Zero16<int32_t>())));
  };
  for (int64_t i = 0; i < count; i += kLanes) {
    const I16 bits = Bits<int32_t>(Abs(Load16(x + i, count - i)));
    add_above(nonzero, bits, 0);
    add_above(above_low, bits, float_bits(low));
    add_above(above_high, bits, float_bits(high));
    add_above(nonfinite, bits, float_bits(kFloatMax));
    add_above(nan, bits, kFloatInf);
  }
  return {.low = Total(nonzero) - Total(above_low),
          .high = Total(above_high) - Total(nonfinite),
          .inf = Total(nonfinite) - Total(nan),
          .nan = Total(nan)};
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(Encode);
HWY_EXPORT(CountMagnitudes);

EncodeCounts encode_tile(const ElementGrid& grid, const EncodeTile& tile) {
  NG_CHECK(!tile.divides || !grid.has_negative_zero, tile.divides);
  NG_CHECK(tile.sr_bits == 8 || tile.sr_bits == 16, tile.sr_bits);
  return HWY_DYNAMIC_DISPATCH(Encode)(grid, tile);
}
MagnitudeCounts count_magnitudes(const float* x, int64_t count, float low, float high) {
  return HWY_DYNAMIC_DISPATCH(CountMagnitudes)(x, count, low, high);
}

}  // namespace ng::cpu
#endif
