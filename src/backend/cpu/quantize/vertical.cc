// Blocks down source columns that are not turned (columns.h): sixteen side by side, a lane each, so
// block maxima and the Hadamard transform need no shuffles and four values along K become one word.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/quantize/vertical.cc"
#include <hwy/foreach_target.h>  // once per instruction set
#include <hwy/highway.h>

#include "backend/cpu/quantize/units-inl.h"
#include "backend/cpu/simd/bf16-inl.h"
#include "backend/cpu/simd/shuffle-inl.h"
#include "base/error.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

template <class Value>
void ColumnAmaxOf(const ColumnTile& tile, const Value* values, uint32_t* amax) {
  const int64_t stride = tile.values.stride();
  const auto line = [&](int64_t i)
                        HWY_ATTR { return Bits<int32_t>(Abs(Load16(values + i * stride))); };
  for (int64_t k = 0; k < tile.k; k += tile.block, amax += kLanes) {
    I16 m0 = Zero16<int32_t>(), m1 = m0;
    for (int64_t i = k; i < k + tile.block; i += 2) {
      m0 = Max(m0, line(i));
      m1 = Max(m1, line(i + 1));
    }
    Store16(Bits<uint32_t>(Max(m0, m1)), amax);
  }
}

void ColumnAmax(const ColumnTile& tile, uint32_t* amax) {
  tile.values.is_bf16() ? ColumnAmaxOf(tile, tile.values.bf16(), amax)
                        : ColumnAmaxOf(tile, tile.values.fp32(), amax);
}

// Four of the rows that are read next into the L2 cache: lines of many rows, which often share few
// sets of the L1 cache, would push one another out there.
HWY_INLINE void FetchNext(const ColumnTile& tile, int64_t first) {
  if (tile.next == nullptr) return;
  const std::byte* row = tile.next + first / 4 * tile.next_stride;
  for (int r = 0; r < 4; ++r, row += tile.next_stride)
    for (int64_t at = 0; at < tile.next_bytes; at += 64)
      __builtin_prefetch(row + at, 0, 2);  // Highway only names the L1 cache
}

template <Variant v>
NG_VECTOR_INLINE U16 DrawsOfLine(const ColumnTile& tile, int64_t i) {
  if constexpr (!v.stochastic) return Zero16<uint32_t>();
  return LoadHalves16<uint32_t>(tile.draws + i * tile.draw_stride);
}

// Four lines from `at` on, whose values are scaled alike.
template <Variant v, class Value>
HWY_INLINE U16 EncodeFour(const RulesFor<v>& k, const ColumnTile& tile, const Value* values,
                          int64_t at, F16 scale, ZeroCounts& zeros, LaneCounts& counts) {
  U16 n[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const F16 x = Load16(values + (at + i) * tile.values.stride());
    const U16 draw = DrawsOfLine<v>(tile, at + i);
    if constexpr (v.in_units())
      n[i] = EncodeUnits<v>(k, x, scale, draw, zeros.least, counts);
    else
      n[i] = EncodeInteger<v>(k, x, scale, draw, true, counts);
  }
  const U16 words = WordOf<v.in_third_byte()>(n[0], n[1], n[2], n[3]);
  if constexpr (v.in_units()) zeros.integers += CountZeros(words);
  return words;
}

// Lines [first, end) one by one, of which some or all may be padding.
template <Variant v>
HWY_NOINLINE void EncodeLines(const RulesFor<v>& k, const ColumnTile& tile, int64_t first,
                              int64_t end, F16 scale, LaneCounts& counts) {
  auto* const to = reinterpret_cast<uint32_t*>(tile.out);
  const int64_t stride = tile.values.stride();
  for (int64_t at = first; at < end; at += 4) {
    U16 n[4];
#pragma GCC unroll 1
    for (int64_t i = at; i < at + 4; ++i) {
      const F16 x = tile.values.is_bf16() ? Load16(tile.values.bf16() + i * stride)
                                          : Load16(tile.values.fp32() + i * stride);
      n[i - at] =
          EncodeInteger<v>(k, x, scale, DrawsOfLine<v>(tile, i), i < tile.counted_k, counts);
    }
    Store16(WordOf<v.in_third_byte()>(n[0], n[1], n[2], n[3]), to + at / 4 * kLanes);
  }
}

template <Variant v, class Value>
EncodeCounts EncodeColumnsOf(const ElementGrid& grid, const ColumnTile& all, const Value* values) {
  const ColumnTile tile = all;  // which no store can change
  const RulesFor<v> k =
      RulesForTile<v>(grid, {.values = {}, .prescale = tile.prescale, .unit = tile.unit});
  LaneCounts counts = NoCounts();
  ZeroCounts zeros = NoZeros();
  int64_t whole = 0;  // lines of blocks without padding: the bulk of the work, free of conditions
  for (int64_t first = 0; first < tile.k; first += tile.block) {
    const F16 scale = ScaleOf<v>(k, Load16(tile.multipliers + first / tile.block * kLanes));
    const int64_t end = first + tile.block;
    for (int64_t i = first; i < end; i += 16) FetchNext(tile, i);
    auto* const to = reinterpret_cast<uint32_t*>(tile.out);
    if (HWY_TARGET == HWY_SCALAR || end > tile.counted_k) {
      EncodeLines<v>(k, tile, first, end, scale, counts);
      continue;
    }
    for (int64_t i = first; i < end; i += 4)
      Store16(EncodeFour<v>(k, tile, values, i, scale, zeros, counts), to + i / 4 * kLanes);
    whole = end;
  }
  return TotalOf(counts, zeros, values, tile.values.stride(), whole, kLanes);
}

template <Variant v>
EncodeCounts EncodeColumnsAs(const ElementGrid& grid, const ColumnTile& tile) {
  return tile.values.is_bf16() ? EncodeColumnsOf<v>(grid, tile, tile.values.bf16())
                               : EncodeColumnsOf<v>(grid, tile, tile.values.fp32());
}

template <bool kStochastic>
EncodeCounts EncodeSmall(const ElementGrid& grid, const ColumnTile& tile) {
  constexpr Variant v = {Kind::small, kStochastic, false, ElementForm::int8};
  const TileScales scales{.multipliers = tile.multipliers,
                          .amax = tile.amax,
                          .stride = kLanes,
                          .rows = tile.k / tile.block,
                          .blocks = kLanes,
                          .prescale = tile.prescale};
  return EncodeByReach<v>(scales, grid.max, [&](auto variant) HWY_ATTR {
    return EncodeColumnsAs<variant.value>(grid, tile);
  });
}

EncodeCounts EncodeColumns(const ElementGrid& grid, const ColumnTile& tile) {
  if (tile.draws == nullptr) return EncodeSmall<false>(grid, tile);
  return grid.kind == Kind::integer
             ? EncodeColumnsAs<Variant{Kind::integer, true, false, ElementForm::int8}>(grid, tile)
             : EncodeSmall<true>(grid, tile);
}

// Sixteen rows with their signs: strides 1 ... 8, and the factor. One register of each row at a
// time: those of all sixteen lanes are twice as many as AVX2 has.
template <bool kIsCentered, class Value>
HWY_NOINLINE void TransformSixteen(const ColumnTile& tile, const Value* values, const float* mean,
                                   const uint32_t* flips, float factor, float* to) {
  const F16::Tag d;
  const U16::Tag du;
  for (int at = 0; at < kLanes; at += F16::kWidth) {
    hn::Vec<F16::Tag> v[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      v[i] = LoadPart(values + i * tile.values.stride() + at);
      if constexpr (kIsCentered) v[i] = hn::Sub(v[i], hn::LoadU(d, mean + at));
      v[i] = hn::Xor(v[i], hn::BitCast(d, hn::Set(du, flips[i])));
    }
    Butterflies(v);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i)
      hn::StoreU(hn::Mul(v[i], hn::Set(d, factor)), d, to + i * kLanes + at);
  }
}

// Groups of 16 · kParts values along K.
template <int kParts, bool kIsCentered, class Value>
void HadamardAs(const ColumnTile& tile, const Value* values, const HadamardRule& by,
                const uint32_t* flips, float* to) {
  for (int64_t k = 0; k < tile.k; k += 16 * kParts, to += 16 * kParts * kLanes) {
    for (int p = 0; p < kParts; ++p) {
      const int64_t first = k + 16 * p;
      FetchNext(tile, first);
      TransformSixteen<kIsCentered>(tile, values + first * tile.values.stride(), by.mean,
                                    flips + 16 * p, kParts == 1 ? by.factor : 1,
                                    to + 16 * p * kLanes);
    }
    if constexpr (kParts > 1)  // the other strides
      for (int i = 0; i < 16; ++i) {
        F16 v[kParts];
        for (int p = 0; p < kParts; ++p) v[p] = Load16(to + (16 * p + i) * kLanes);
        Butterflies(v);
        for (int p = 0; p < kParts; ++p)
          Store16(Mul(v[p], Set16(by.factor)), to + (16 * p + i) * kLanes);
      }
  }
}

void HadamardColumns(const ColumnTile& tile, const HadamardRule& by, float* to) {
  WithHadamardSigns(by.size, by.signs, [&](auto parts, const uint32_t* flips) HWY_ATTR {
    const auto transform = [&](const auto* values) HWY_ATTR {
      by.mean != nullptr ? HadamardAs<parts, true>(tile, values, by, flips, to)
                         : HadamardAs<parts, false>(tile, values, by, flips, to);
    };
    tile.values.is_bf16() ? transform(tile.values.bf16()) : transform(tile.values.fp32());
  });
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(ColumnAmax);
HWY_EXPORT(EncodeColumns);
HWY_EXPORT(HadamardColumns);

void column_amax(const ColumnTile& tile, uint32_t* amax) {
  HWY_DYNAMIC_DISPATCH(ColumnAmax)(tile, amax);
}
EncodeCounts encode_columns(const ElementGrid& grid, const ColumnTile& tile) {
  NG_CHECK(tile.block % 4 == 0 && tile.k % tile.block == 0, tile.block, tile.k);
  return HWY_DYNAMIC_DISPATCH(EncodeColumns)(grid, tile);
}
void hadamard_columns(const ColumnTile& tile, const HadamardRule& by, float* to) {
  HWY_DYNAMIC_DISPATCH(HadamardColumns)(tile, by, to);
}

}  // namespace ng::cpu
#endif
