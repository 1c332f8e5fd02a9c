// Encoding a tile of scaled values, row by row.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/quantize/encode.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // once per instruction set
#include <hwy/highway.h>

#include "backend/cpu/quantize/units-inl.h"
#include "backend/cpu/simd/bf16-inl.h"
#include "base/error.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

// ---------------------------------------------------------------- runs and tiles

// Sixteen values, or the first `left`, as elements at out[i].
template <Variant v>
NG_VECTOR_INLINE void EncodeVector(const RulesFor<v>& k, F16 value, F16 scale, U16 draw, void* out,
                                   int64_t i, int64_t left, bool counted, LaneCounts& counts) {
  if constexpr (v.form == ElementForm::int8) {
    const U16 n = EncodeInteger<v>(k, value, scale, draw, counted, counts);
    const U16 low = v.in_third_byte() ? ShiftRight<16>(n) : n;
    StoreLow(low, static_cast<uint8_t*>(out) + i, left);
  } else {
    const F16 y = Scaled<v>(k, value, scale);
    const F16 element = RoundElement<v>(k, y, draw);
    if constexpr (v.form == ElementForm::fp32)
      Store16(element, static_cast<float*>(out) + i, left);
    else
      StoreLow(ShiftRight<16>(Bits<uint32_t>(element)), static_cast<uint16_t*>(out) + i, left);
    if (counted) CountElement(k, value, y, element, counts);
  }
}

template <Variant v>
HWY_INLINE U16 DrawsAt(const uint16_t* draws, int64_t i) {
  if constexpr (!v.stochastic) return Zero16<uint32_t>();
  return LoadHalves16<uint32_t>(draws + i);
}

// One row of a tile.
struct Row {
  TileValues x;
  const float* multiplier;
  const uint16_t* draws;
  std::byte* out;
};

template <Variant v>
HWY_INLINE Row RowOf(const EncodeTile& tile, int64_t r) {
  return {.x = tile.values.from(r, 0),
          .multiplier = tile.multipliers + r / tile.rows_per_multiplier * tile.multiplier_stride,
          .draws = v.stochastic ? tile.draws + r * tile.draw_stride : nullptr,
          .out = static_cast<std::byte*>(tile.out) + r * tile.out_stride * bytes_of(v.form)};
}

// The first `count` values of a row from `x` on, all of them counted, in whole vectors of which
// `vectors` make a block: the bulk of the work, free of the bookkeeping for what is ragged.
template <Variant v, class Value>
HWY_INLINE void EncodeVectors(const Rules& rules, const Row& row, const Value* x, int64_t count,
                              int64_t vectors, int64_t ahead, LaneCounts& counts) {
  const Rules k = rules;
  LaneCounts sum = counts;
  for (int64_t at = 0, b = 0; at < count; ++b) {
    const F16 scale = ScaleOf<v>(k, Set16(row.multiplier[b]));
    const int64_t end = std::min(at + vectors * kLanes, count);
    for (; at < end; at += kLanes) {
      hwy::Prefetch(x + at + ahead);
      EncodeVector<v>(k, Load16(x + at), scale, DrawsAt<v>(row.draws, at), row.out, at, kLanes,
                      true, sum);
    }
  }
  counts = sum;
}

constexpr int64_t kFour = 4 * kLanes;  // values of four vectors

// The same in units, four vectors at a time, of which kVectors share a scale: all of a block, or
// four of it.
template <Variant v, int kVectors, class Value>
HWY_INLINE void EncodeFours(const UnitRules& rules, const Row& row, const Value* x, int64_t count,
                            int64_t vectors, int64_t ahead, ZeroCounts& zeros, LaneCounts& counts) {
  const UnitRules k = rules;
  LaneCounts sum = counts;
  ZeroCounts found = zeros;
  const int64_t block = (kVectors < 4 ? kVectors : vectors) * kLanes;
  for (int64_t at = 0; at < count; at += kFour) {
    const float* multiplier = row.multiplier + at / block;
    U16 n[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const int64_t c = at + i * kLanes;
      hwy::Prefetch(x + c + ahead);
      const F16 scale = ScaleOf<v>(k, Set16(multiplier[i / kVectors]));
      n[i] = EncodeUnits<v>(k, Load16(x + c), scale, DrawsAt<v>(row.draws, c), found.least, sum);
    }
    const U16 words = WordOf<v.in_third_byte()>(n[0], n[1], n[2], n[3]);
    found.integers += CountZeros(words);
    StoreInOrder(words, row.out + at);
  }
  counts = sum;
  zeros = found;
}

// Values [from, to) of a row, which have one scale.
template <Variant v>
HWY_NOINLINE void EncodeRun(const RulesFor<v>& k, const Row& row, int64_t from, int64_t to,
                            float multiplier, bool counted, LaneCounts& counts) {
  const F16 scale = ScaleOf<v>(k, Set16(multiplier));
  for (int64_t i = from; i < to; i += kLanes) {
    const F16 x =
        row.x.is_bf16() ? Load16(row.x.bf16() + i, to - i) : Load16(row.x.fp32() + i, to - i);
    EncodeVector<v>(k, x, scale, DrawsAt<v>(row.draws, i), row.out, i, to - i, counted, counts);
  }
}

// Compiled once, for runs alone: what recipes have few of, and all where lanes are scalars.
constexpr bool IsRare(Variant v) {
  return HWY_TARGET == HWY_SCALAR ||
         (v.form != ElementForm::int8 && v.kind != Kind::small && v.kind != Kind::bf16);
}

// The values of a row that need no bookkeeping, in blocks of `vectors`; zero where a vector, in
// units four of them, may have parts of several blocks.
template <Variant v>
int64_t BulkOf(int64_t vectors, int64_t counted) {
  const bool is_cut = vectors > 2 && vectors % 4 != 0 && counted > vectors * kLanes;
  if (vectors == 0 || (v.in_units() && is_cut)) return 0;
  return counted - counted % (v.in_units() ? kFour : kLanes);
}

template <Variant v, class Value>
EncodeCounts EncodeRowsOf(const ElementGrid& grid, const EncodeTile& tile, const Value* values) {
  const RulesFor<v> k = RulesForTile<v>(grid, tile);
  LaneCounts counts = NoCounts();
  ZeroCounts zeros = NoZeros();
  const int64_t counted = std::clamp<int64_t>(tile.counted_cols, 0, tile.cols);
  const int64_t vectors = !IsRare(v) && tile.block % kLanes == 0 ? tile.block / kLanes : 0;
  const int64_t bulk = BulkOf<v>(vectors, counted);
  for (int64_t r = 0; r < tile.rows; ++r) {
    const Row row = RowOf<v>(tile, r);
    const Value* x = values + r * tile.values.stride();
    if constexpr (v.in_units() && !IsRare(v)) {
      if (vectors == 1)
        EncodeFours<v, 1>(k, row, x, bulk, vectors, tile.ahead, zeros, counts);
      else if (vectors == 2)
        EncodeFours<v, 2>(k, row, x, bulk, vectors, tile.ahead, zeros, counts);
      else
        EncodeFours<v, 4>(k, row, x, bulk, vectors, tile.ahead, zeros, counts);
    } else if constexpr (!IsRare(v)) {
      EncodeVectors<v>(k, row, x, bulk, vectors, tile.ahead, counts);
    }
    for (int64_t c = bulk, end = 0; c < tile.cols; c = end) {
      const int64_t block = c / tile.block;
      end = std::min((block + 1) * tile.block, tile.cols);
      const int64_t padding = std::clamp(counted, c, end);
      EncodeRun<v>(k, row, c, padding, row.multiplier[block], true, counts);
      if (padding < end) EncodeRun<v>(k, row, padding, end, row.multiplier[block], false, counts);
    }
  }
  return TotalOf(counts, zeros, values, tile.values.stride(), tile.rows, bulk);
}

template <Variant v>
EncodeCounts EncodeRows(const ElementGrid& grid, const EncodeTile& tile) {
  if constexpr (!IsRare(v))
    if (tile.values.is_bf16()) return EncodeRowsOf<v>(grid, tile, tile.values.bf16());
  return EncodeRowsOf<v>(grid, tile, tile.values.fp32());
}

template <Kind kKind, bool kSignedZero, ElementForm kForm>
EncodeCounts EncodeRounding(const ElementGrid& grid, const EncodeTile& tile) {
  return tile.draws != nullptr ? EncodeRows<Variant{kKind, true, kSignedZero, kForm}>(grid, tile)
                               : EncodeRows<Variant{kKind, false, kSignedZero, kForm}>(grid, tile);
}

template <bool kStochastic>
EncodeCounts EncodeSmallInt8(const ElementGrid& grid, const EncodeTile& tile) {
  constexpr Variant v = {Kind::small, kStochastic, false, ElementForm::int8};
  if (tile.divides) return EncodeRows<v>(grid, tile);
  const TileScales scales{.multipliers = tile.multipliers,
                          .amax = tile.amax,
                          .stride = tile.multiplier_stride,
                          .rows = ceil_div(tile.rows, tile.rows_per_multiplier),
                          .blocks = ceil_div(tile.cols, tile.block),
                          .prescale = tile.prescale};
  return EncodeByReach<v>(scales, grid.max, [&](auto variant) HWY_ATTR {
    return EncodeRows<variant.value>(grid, tile);
  });
}

EncodeCounts EncodeInt8(const ElementGrid& grid, const EncodeTile& tile) {
  if (tile.draws == nullptr) return EncodeSmallInt8<false>(grid, tile);
  return grid.kind == Kind::integer
             ? EncodeRows<Variant{Kind::integer, true, false, ElementForm::int8}>(grid, tile)
             : EncodeSmallInt8<true>(grid, tile);
}

EncodeCounts Encode(const ElementGrid& grid, const EncodeTile& tile) {
  using Form = ElementForm;
  if (tile.form == Form::int8) return EncodeInt8(grid, tile);
  switch (grid.kind) {
    case Kind::small:
      return grid.has_negative_zero ? EncodeRounding<Kind::small, true, Form::bf16>(grid, tile)
                                    : EncodeRounding<Kind::small, false, Form::bf16>(grid, tile);
    case Kind::integer:
      return EncodeRounding<Kind::integer, false, Form::bf16>(grid, tile);
    case Kind::bf16:
      return EncodeRounding<Kind::bf16, true, Form::bf16>(grid, tile);
    case Kind::fp16:
      return EncodeRounding<Kind::fp16, true, Form::fp32>(grid, tile);
    default:
      return EncodeRows<Variant{.kind = Kind::fp32, .form = Form::fp32}>(grid, tile);
  }
}

// ---------------------------------------------------------------- counting without encoding

template <class Value>
MagnitudeCounts CountMagnitudesOf(const Value* x, int64_t count, float low, float high) {
  const U16 zero = Zero16<uint32_t>();
  U16 nonzero = zero, above_low = zero, above_high = zero, nonfinite = zero, nan = zero;
  // As integers, which also order NaN above Inf.
  const auto add_above = [](U16& counts, I16 bits, uint32_t limit) HWY_ATTR {
    counts = CountWhere(counts, Gt(bits, Set16(static_cast<int32_t>(limit))));
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

MagnitudeCounts CountMagnitudes(const TileValues& row, int64_t count, float low, float high) {
  return row.is_bf16() ? CountMagnitudesOf(row.bf16(), count, low, high)
                       : CountMagnitudesOf(row.fp32(), count, low, high);
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(Encode);
HWY_EXPORT(CountMagnitudes);

EncodeCounts encode_tile(const ElementGrid& grid, const EncodeTile& tile) {
  NG_CHECK(!tile.divides || !grid.has_negative_zero, tile.divides);
  return HWY_DYNAMIC_DISPATCH(Encode)(grid, tile);
}
MagnitudeCounts count_magnitudes(const TileValues& row, int64_t count, float low, float high) {
  return HWY_DYNAMIC_DISPATCH(CountMagnitudes)(row, count, low, high);
}

}  // namespace ng::cpu
#endif
