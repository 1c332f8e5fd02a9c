// Loads source rows of memory into a tile: turned, without means, Hadamard-transformed, with maxima
// of blocks.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/quantize/load.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // once per instruction set
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "backend/cpu/quantize/kernels.h"
#include "backend/cpu/simd/bf16-inl.h"
#include "backend/cpu/simd/inline-inl.h"
#include "backend/cpu/simd/lanes-inl.h"
#include "backend/cpu/simd/shuffle-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

// ---------------------------------------------------------------- transposition

#if HWY_TARGET != HWY_SCALAR

constexpr int64_t kRowsAhead = 32;
using Words = hn::CappedTag<uint32_t, 16>;

// 16 bytes of rows r, r + 4, r + 8, ..., one per 128-bit block.
template <class Value>
HWY_INLINE hn::Vec<Words> LoadFours(const Value* from, int64_t stride) {
  const Words d;
  const auto load = [&](int64_t block) HWY_ATTR {
    return hn::LoadDup128(d, reinterpret_cast<const uint32_t*>(from + 4 * block * stride));
  };
  auto v = load(0);
#if HWY_TARGET == HWY_AVX2
  return hn::ConcatUpperLower(d, load(1), v);
#else
  v = hn::IfThenElse(hn::FirstN(d, 4), v, load(1));
  v = hn::IfThenElse(hn::FirstN(d, 8), v, load(2));
  return hn::IfThenElse(hn::FirstN(d, 12), v, load(3));
#endif
}

// put(c, column c of one register's worth of rows), for the words of 16 bytes of every row.
template <class Value, class Put>
HWY_INLINE void TransposeFours(const Value* from, int64_t stride, const Put& put) {
  TransposeWordsOf(Words(), LoadFours(from, stride), LoadFours(from + stride, stride),
                   LoadFours(from + 2 * stride, stride), LoadFours(from + 3 * stride, stride), put);
}

// 16 bytes of one register's worth of rows, value by value: words as they are.
HWY_INLINE void TransposeBlock(const uint32_t* from, int64_t stride, uint32_t* to,
                               int64_t to_stride) {
  TransposeFours(from, stride, [&](int64_t c, hn::Vec<Words> column) HWY_ATTR {
    hn::StoreU(column, Words(), to + c * to_stride);
  });
}

// BF16 as FP32, of which it is the upper half: two columns lie in a word.
HWY_INLINE void TransposeBlock(const Bf16* from, int64_t stride, uint32_t* to, int64_t to_stride) {
  TransposeFours(from, stride, [&](int64_t c, hn::Vec<Words> pair) HWY_ATTR {
    const Words d;
    hn::StoreU(hn::ShiftLeft<16>(pair), d, to + 2 * c * to_stride);
    hn::StoreU(hn::And(pair, hn::Set(d, 0xFFFF0000u)), d, to + (2 * c + 1) * to_stride);
  });
}
#endif

HWY_INLINE void TransposeOne(const uint32_t* from, uint32_t* to) {
  std::memcpy(to, from, sizeof(uint32_t));
}
HWY_INLINE void TransposeOne(const Bf16* from, uint32_t* to) {
  const float wide = widened(*from);
  std::memcpy(to, &wide, sizeof wide);
}

template <class Value>
HWY_INLINE void Transpose(const Value* from, int64_t from_stride, int64_t rows, int64_t cols,
                          uint32_t* to, int64_t to_stride) {
  int64_t whole_rows = 0, whole_cols = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr int64_t kLine = 64 / sizeof(Value), kBlock = 16 / sizeof(Value);
  const auto step = static_cast<int64_t>(hn::Lanes(Words()));
  whole_rows = rows / step * step;
  whole_cols = cols / kBlock * kBlock;
  // Whole cache lines of the source before the next rows, and lines of later rows meanwhile: no
  // hardware prefetcher follows a column.
  for (int64_t c0 = 0; c0 < whole_cols; c0 += kLine)
    for (int64_t r = 0; r < whole_rows; r += step) {
      for (int64_t i = r + kRowsAhead; i < r + kRowsAhead + step; ++i)
        hwy::Prefetch(from + i * from_stride + c0);
      for (int64_t c = c0; c < std::min(c0 + kLine, whole_cols); c += kBlock)
        TransposeBlock(from + r * from_stride + c, from_stride, to + c * to_stride + r, to_stride);
    }
#endif
  for (int64_t c = 0; c < cols; ++c)
    for (int64_t r = c < whole_cols ? whole_rows : 0; r < rows; ++r)
      TransposeOne(from + r * from_stride + c, to + c * to_stride + r);
}

void TransposeWords(const uint32_t* from, int64_t from_stride, int64_t rows, int64_t cols,
                    uint32_t* to, int64_t to_stride) {
  Transpose(from, from_stride, rows, cols, to, to_stride);
}

void TransposeWidened(const Bf16* from, int64_t from_stride, int64_t rows, int64_t cols,
                      uint32_t* to, int64_t to_stride) {
  Transpose(from, from_stride, rows, cols, to, to_stride);
}

void WidenRow(const Bf16* from, int64_t count, float* to) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) Store16(Load16(from + i), to + i);
  for (; i < count; ++i) to[i] = widened(from[i]);
}

// ---------------------------------------------------------------- Hadamard

// 1 and -1 for lanes l of which bit `stride` is 0 and 1.
constexpr std::array<float, 16> signs_of_lanes(int stride) {
  std::array<float, 16> signs{};
  for (int l = 0; l < 16; ++l) signs[static_cast<size_t>(l)] = (l & stride) != 0 ? -1.0f : 1.0f;
  return signs;
}

// Butterflies between the lanes of sixteen values: lane l gets u + v where bit `kStride` of l is 0
// and u - v (computed as v · -1 + u, the same number but for the sign of NaN) where it is 1.
template <int kStride>
NG_VECTOR_INLINE F16 Butterfly16(F16 x) {
  alignas(64) static constexpr std::array<float, 16> kSigns = signs_of_lanes(kStride);
  const F16 signs = Load16(kSigns.data());
#if HWY_TARGET == HWY_SCALAR
  F16 partner;
  for (int l = 0; l < kLanes; ++l) partner.part[l] = x.part[l ^ kStride];
  return Add(Mul(x, signs), partner);
#else
  return ForParts<F16>([&](size_t p) HWY_ATTR {
    const auto v = x.part[p], sign = signs.part[p];
    const F16::Tag d;
    if constexpr (kStride == 1) return hn::MulAdd(v, sign, hn::Shuffle2301(v));
    if constexpr (kStride == 2) return hn::MulAdd(v, sign, hn::Shuffle1032(v));
    if constexpr (kStride == 4) return hn::MulAdd(v, sign, hn::SwapAdjacentBlocks(v));
    if constexpr (kStride == 8 && F16::kParts == 1)
      return hn::MulAdd(v, sign, hn::ConcatLowerUpper(d, v, v));
    return hn::MulAdd(v, sign, x.part[(p + 1) % F16::kParts]);
  });
#endif
}

// put(r, c, sixteen values) for what rows × cols values become.
template <int kVectors, bool kIsCentered, class Value, class Put>
HWY_INLINE void TransformTile(const Value* from, int64_t stride, int64_t rows, int64_t cols,
                              const float* mean, const uint32_t* flips, F16 factor,
                              const Put& put) {
  const int64_t ahead = rows * stride;  // the rows of the next piece
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; c += 16 * kVectors) {
      const Value* x = from + r * stride + c;
      for (int i = 0; i < kVectors; ++i) hwy::Prefetch(x + ahead + 16 * i);
      F16 v[kVectors];
#pragma GCC unroll 8
      for (int i = 0; i < kVectors; ++i) {
        v[i] = Load16(x + 16 * i);
        if constexpr (kIsCentered) v[i] = Sub(v[i], Load16(mean + c + 16 * i));
        v[i] = Bits<float>(Xor(Bits<uint32_t>(v[i]), Load16(flips + 16 * i)));
        v[i] = Butterfly16<8>(Butterfly16<4>(Butterfly16<2>(Butterfly16<1>(v[i]))));
      }
      Butterflies(v);
#pragma GCC unroll 8
      for (int i = 0; i < kVectors; ++i) put(r, c + 16 * i, Mul(v[i], factor));
    }
}

template <class Put>
HWY_INLINE void TransformRows(const TileValues& from, int64_t rows, int64_t cols,
                              const HadamardRule& by, const Put& put) {
  WithHadamardSigns(by.size, by.signs, [&](auto parts, const uint32_t* flips) HWY_ATTR {
    const auto transform = [&](const auto* x, auto is_centered) HWY_ATTR {
      TransformTile<parts, is_centered>(x, from.stride(), rows, cols, by.mean, flips,
                                        Set16(by.factor), put);
    };
    const auto centered = [&](const auto* x) HWY_ATTR {
      by.mean != nullptr ? transform(x, std::true_type()) : transform(x, std::false_type());
    };
    from.is_bf16() ? centered(from.bf16()) : centered(from.fp32());
  });
}

void HadamardRows(const TileValues& from, const Rows<float>& to, const HadamardRule& by) {
  TransformRows(from, to.rows, to.cols, by,
                [&](int64_t r, int64_t c, F16 values) HWY_ATTR { Store16(values, to.row(r) + c); });
}

// ---------------------------------------------------------------- block maxima

#if HWY_TARGET != HWY_SCALAR
// Lane l of the result: the largest of lanes l, l + 4, l + 8 and l + 12.
HWY_INLINE hn::Vec<hn::FixedTag<int32_t, 4>> BlockMax(I16 v) {
#if HWY_TARGET == HWY_AVX2
  const auto by8 = hn::Max(v.part[0], v.part[1]);
#else
  const hn::FixedTag<int32_t, 8> d8;
  const auto by8 = hn::Max(hn::LowerHalf(d8, v.part[0]), hn::UpperHalf(d8, v.part[0]));
#endif
  const hn::FixedTag<int32_t, 4> d4;
  return hn::Max(hn::LowerHalf(d4, by8), hn::UpperHalf(d4, by8));
}
#endif

HWY_INLINE uint32_t LargestLane(I16 v) {
#if HWY_TARGET == HWY_SCALAR
  int32_t largest = 0;
  for (int l = 0; l < kLanes; ++l) largest = std::max(largest, hn::GetLane(v.part[l]));
  return static_cast<uint32_t>(largest);
#else
  const auto by4 = BlockMax(v);
  const auto by2 = hn::Max(by4, hn::Shuffle1032(by4));
  return static_cast<uint32_t>(hn::GetLane(hn::Max(by2, hn::Shuffle2301(by2))));
#endif
}

HWY_INLINE I16 Magnitude(F16 x) { return Bits<int32_t>(Abs(x)); }

// The largest |bits| of every lane over `count` values, a multiple of 16.
HWY_INLINE I16 AmaxLanes(const float* x, int64_t count) {
  I16 m0 = Magnitude(Load16(x)), m1 = m0;
  int64_t i = 16;
  for (; i + 32 <= count; i += 32) {
    m0 = Max(m0, Magnitude(Load16(x + i)));
    m1 = Max(m1, Magnitude(Load16(x + i + 16)));
  }
  if (i < count) m0 = Max(m0, Magnitude(Load16(x + i)));
  return Max(m0, m1);
}

// Two values of BF16 in every lane, compared as they are and widened at the end.
HWY_INLINE I16 AmaxLanes(const Bf16* x, int64_t count) {
  int64_t i = 0;
  I16 amax = Zero16<int32_t>();
#if HWY_TARGET != HWY_SCALAR
  const hn::Repartition<uint16_t, I16::Tag> d16;
  const auto magnitude = hn::Set(d16, uint16_t{0x7FFF});
  if (count >= 32) {
    const auto pairs = ForParts<U16>([&](size_t p) HWY_ATTR {
      auto largest = hn::Zero(d16);
      for (int64_t at = static_cast<int64_t>(p * hn::Lanes(d16)); at < count / 32 * 32; at += 32)
        largest = hn::Max(largest, hn::And(hn::LoadU(d16, &x[at].bits), magnitude));
      return hn::BitCast(U16::Tag(), largest);
    });
    amax = Max(Bits<int32_t>(ShiftLeft<16>(pairs)), Bits<int32_t>(And(pairs, Set16(0xFFFF0000u))));
    i = count / 32 * 32;
  }
#endif
  for (; i < count; i += 16) amax = Max(amax, Magnitude(Load16(x + i)));
  return amax;
}

#if HWY_TARGET != HWY_SCALAR
// The same of many, a multiple of 128, by four maxima, so that none waits for the one before it.
HWY_INLINE I16 AmaxOfMany(const Bf16* x, int64_t count) {
  const hn::Repartition<uint16_t, I16::Tag> d16;
  const auto pairs = ForParts<U16>([&](size_t p) HWY_ATTR {
    const Bf16* from = x + p * hn::Lanes(d16);
    const auto magnitude = [&](int64_t at) HWY_ATTR {
      return hn::And(hn::LoadU(d16, &from[at].bits), hn::Set(d16, uint16_t{0x7FFF}));
    };
    auto a = hn::Zero(d16), b = a, c = a, d = a;
    for (int64_t at = 0; at < count; at += 128) {
      a = hn::Max(a, magnitude(at));
      b = hn::Max(b, magnitude(at + 32));
      c = hn::Max(c, magnitude(at + 64));
      d = hn::Max(d, magnitude(at + 96));
    }
    return hn::BitCast(U16::Tag(), hn::Max(hn::Max(a, b), hn::Max(c, d)));
  });
  return Max(Bits<int32_t>(ShiftLeft<16>(pairs)), Bits<int32_t>(And(pairs, Set16(0xFFFF0000u))));
}
#endif

template <class Value>
HWY_INLINE uint32_t AmaxBits(const Value* x, int64_t count) {
  I16 amax = Zero16<int32_t>();
#if HWY_TARGET != HWY_SCALAR
  if constexpr (std::is_same_v<Value, Bf16>)
    if (const int64_t many = count / 128 * 128; many > 128) {
      amax = AmaxOfMany(x, many);
      x += many;
      count -= many;
    }
#endif
  const int64_t whole = count / 16 * 16;
  if (whole > 0) amax = Max(amax, AmaxLanes(x, whole));
  if (whole < count) amax = Max(amax, Magnitude(Load16(x + whole, count - whole)));
  return LargestLane(amax);
}

#if HWY_TARGET != HWY_SCALAR
// Lane b of every 128 bits: the largest of block b's lanes there. Shared shuffles make four blocks
// at once cheaper than one by one.
template <class D>
HWY_INLINE hn::Vec<D> LargestOfFour(D d, hn::Vec<D> a, hn::Vec<D> b, hn::Vec<D> c, hn::Vec<D> e) {
  const hn::Repartition<uint64_t, D> d64;
  const auto ab =
      hn::BitCast(d64, hn::Max(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  const auto ce =
      hn::BitCast(d64, hn::Max(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e)));
  return hn::Max(hn::BitCast(d, hn::InterleaveLower(d64, ab, ce)),
                 hn::BitCast(d, hn::InterleaveUpper(d64, ab, ce)));
}

// amax[b] = max(itself, block b's) for four blocks side by side; `block` is a multiple of 16.
template <class Value>
HWY_INLINE void FourBlockAmax(const Value* x, int64_t block, uint32_t* amax) {
  const I16 a = AmaxLanes(x, block), b = AmaxLanes(x + block, block);
  const I16 c = AmaxLanes(x + 2 * block, block), e = AmaxLanes(x + 3 * block, block);
  const I16 four = ForParts<I16>([&](size_t p) HWY_ATTR {
    return LargestOfFour(I16::Tag(), a.part[p], b.part[p], c.part[p], e.part[p]);
  });
  const hn::FixedTag<int32_t, 4> d4;
  auto* const to = reinterpret_cast<int32_t*>(amax);
  hn::StoreU(hn::Max(BlockMax(four), hn::LoadU(d4, to)), d4, to);
}
#endif

template <class Value>
void BlockAmaxOf(const Value* values, int64_t stride, int64_t rows, int64_t cols,
                 const AmaxTarget& target) {
  for (int64_t r = 0; r < rows; ++r) {
    const Value* x = values + r * stride;
    uint32_t* amax = target.amax + r / target.rows_per_block * target.stride;
    int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
    if (target.block % 16 == 0)
      for (; c + 4 * target.block <= cols; c += 4 * target.block, amax += 4)
        FourBlockAmax(x + c, target.block, amax);
#endif
    for (; c < cols; c += target.block, ++amax)
      *amax = std::max(*amax, AmaxBits(x + c, std::min(target.block, cols - c)));
  }
}

void BlockAmax(const TileValues& values, int64_t rows, int64_t cols, const AmaxTarget& target) {
  values.is_bf16() ? BlockAmaxOf(values.bf16(), values.stride(), rows, cols, target)
                   : BlockAmaxOf(values.fp32(), values.stride(), rows, cols, target);
}

uint32_t HadamardAmax(const TileValues& from, int64_t rows, int64_t cols, const HadamardRule& by) {
  I16 amax = Zero16<int32_t>();
  TransformRows(from, rows, cols, by, [&](int64_t /* r */, int64_t /* c */, F16 values) HWY_ATTR {
    amax = Max(amax, Magnitude(values));
  });
  return LargestLane(amax);
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(TransposeWords);
HWY_EXPORT(TransposeWidened);
HWY_EXPORT(WidenRow);
HWY_EXPORT(HadamardRows);
HWY_EXPORT(HadamardAmax);
HWY_EXPORT(BlockAmax);

void transpose_words(const uint32_t* from, int64_t from_stride, int64_t rows, int64_t cols,
                     uint32_t* to, int64_t to_stride) {
  HWY_DYNAMIC_DISPATCH(TransposeWords)(from, from_stride, rows, cols, to, to_stride);
}
void transpose(const TileValues& from, int64_t rows, int64_t cols, float* to, int64_t to_stride) {
  auto* const words = reinterpret_cast<uint32_t*>(to);
  if (from.is_bf16()) HWY_DYNAMIC_DISPATCH(TransposeWidened)
  (from.bf16(), from.stride(), rows, cols, words, to_stride);
  else transpose_words(reinterpret_cast<const uint32_t*>(from.fp32()), from.stride(), rows, cols,
                       words, to_stride);
}
void widen_row(const Bf16* from, int64_t count, float* to) {
  HWY_DYNAMIC_DISPATCH(WidenRow)(from, count, to);
}
void hadamard_rows(const TileValues& from, const Rows<float>& to, const HadamardRule& by) {
  HWY_DYNAMIC_DISPATCH(HadamardRows)(from, to, by);
}
uint32_t hadamard_amax(const TileValues& from, int64_t rows, int64_t cols, const HadamardRule& by) {
  return HWY_DYNAMIC_DISPATCH(HadamardAmax)(from, rows, cols, by);
}
void block_amax(const TileValues& values, int64_t rows, int64_t cols, const AmaxTarget& target) {
  HWY_DYNAMIC_DISPATCH(BlockAmax)(values, rows, cols, target);
}

}  // namespace ng::cpu
#endif
