// Bringing values into a tile: transposition, random Hadamard transform, block maxima.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/quantize/load.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // once per instruction set
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "backend/cpu/quantize/kernels.h"
#include "backend/cpu/simd/bf16-inl.h"
#include "backend/cpu/simd/lanes-inl.h"
#include "backend/cpu/simd/shuffle-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

constexpr int64_t kRowsAhead = 32;

#if HWY_TARGET != HWY_SCALAR

using Words = hn::CappedTag<uint32_t, 16>;

// Rows r, r + 4, r + 8, ... of four columns, one per 128-bit block.
HWY_INLINE hn::Vec<Words> LoadFours(const uint32_t* from, int64_t stride) {
  const Words d;
  auto v = hn::LoadDup128(d, from);
#if HWY_TARGET == HWY_AVX2
  return hn::ConcatUpperLower(d, hn::LoadDup128(d, from + 4 * stride), v);
#else
  const auto load = [&](int block)
                        HWY_ATTR { return hn::LoadDup128(d, from + 4 * block * stride); };
  v = hn::IfThenElse(hn::FirstN(d, 4), v, load(1));
  v = hn::IfThenElse(hn::FirstN(d, 8), v, load(2));
  return hn::IfThenElse(hn::FirstN(d, 12), v, load(3));
#endif
}

// Four columns of one register's worth of rows.
HWY_INLINE void TransposeFours(const uint32_t* from, int64_t from_stride, uint32_t* to,
                               int64_t to_stride) {
  const Words d;
  StoreTransposed(d, LoadFours(from, from_stride), LoadFours(from + from_stride, from_stride),
                  LoadFours(from + 2 * from_stride, from_stride),
                  LoadFours(from + 3 * from_stride, from_stride), to, to_stride);
}
#endif

void TransposeWords(const uint32_t* from, int64_t from_stride, int64_t rows, int64_t cols,
                    uint32_t* to, int64_t to_stride) {
  int64_t whole_rows = 0, whole_cols = 0;
#if HWY_TARGET != HWY_SCALAR
  const auto step = static_cast<int64_t>(hn::Lanes(Words()));
  whole_rows = rows / step * step;
  whole_cols = cols / 4 * 4;
  // Whole cache lines of the source before the next rows, and lines of later rows meanwhile: no
  // hardware prefetcher follows a column.
  for (int64_t c0 = 0; c0 < whole_cols; c0 += 16)
    for (int64_t r = 0; r < whole_rows; r += step) {
      for (int64_t i = r + kRowsAhead; i < r + kRowsAhead + step; ++i)
        hwy::Prefetch(from + i * from_stride + c0);
      for (int64_t c = c0; c < std::min(c0 + 16, whole_cols); c += 4)
        TransposeFours(from + r * from_stride + c, from_stride, to + c * to_stride + r, to_stride);
    }
#endif
  for (int64_t c = 0; c < cols; ++c)
    for (int64_t r = c < whole_cols ? whole_rows : 0; r < rows; ++r)
      std::memcpy(to + c * to_stride + r, from + r * from_stride + c, sizeof(uint32_t));
}

void WidenRows(const Rows<const Bf16>& from, float* to, int64_t to_stride) {
  for (int64_t r = 0; r < from.rows; ++r) {
    const Bf16* x = from.row(r);
    float* y = to + r * to_stride;
    int64_t c = 0;
    for (; c + kLanes <= from.cols; c += kLanes) Store16(Load16(x + c), y + c);
    for (; c < from.cols; ++c) y[c] = widened(x[c]);
  }
}

// A few rows of a cache line's columns at a time, which stay in the L1 cache in between.
void TransposeWidened(const Rows<const Bf16>& from, float* to, int64_t to_stride) {
  constexpr int64_t kRows = 16, kCols = 32;
  alignas(64) float words[kRows * kCols];
  for (int64_t c = 0; c < from.cols; c += kCols)
    for (int64_t r = 0; r < from.rows; r += kRows) {
      const int64_t rows = std::min(kRows, from.rows - r), cols = std::min(kCols, from.cols - c);
      for (int64_t i = r + kRowsAhead; i < std::min(r + kRowsAhead + kRows, from.rows); ++i)
        hwy::Prefetch(from.row(i) + c);
      WidenRows(from.slice(r, rows).columns(c, cols), words, kCols);
      TransposeWords(reinterpret_cast<const uint32_t*>(words), kCols, rows, cols,
                     reinterpret_cast<uint32_t*>(to + c * to_stride + r), to_stride);
    }
}

// ---------------------------------------------------------------- Hadamard

// Butterflies between the lanes of sixteen values: lane l gets u + v where bit `kStride` of l is 0
// and u - v (computed as -v + u, the same number) where it is 1.
template <int kStride>
HWY_INLINE F16 Butterfly16(F16 x) {
  alignas(64) static constexpr uint32_t kSigns[16] = {0,
                                                      (1 & kStride) != 0 ? 0x80000000u : 0,
                                                      (2 & kStride) != 0 ? 0x80000000u : 0,
                                                      (3 & kStride) != 0 ? 0x80000000u : 0,
                                                      (4 & kStride) != 0 ? 0x80000000u : 0,
                                                      (5 & kStride) != 0 ? 0x80000000u : 0,
                                                      (6 & kStride) != 0 ? 0x80000000u : 0,
                                                      (7 & kStride) != 0 ? 0x80000000u : 0,
                                                      (8 & kStride) != 0 ? 0x80000000u : 0,
                                                      (9 & kStride) != 0 ? 0x80000000u : 0,
                                                      (10 & kStride) != 0 ? 0x80000000u : 0,
                                                      (11 & kStride) != 0 ? 0x80000000u : 0,
                                                      (12 & kStride) != 0 ? 0x80000000u : 0,
                                                      (13 & kStride) != 0 ? 0x80000000u : 0,
                                                      (14 & kStride) != 0 ? 0x80000000u : 0,
                                                      (15 & kStride) != 0 ? 0x80000000u : 0};
  const F16 flipped = Bits<float>(Xor(Bits<uint32_t>(x), Load16(kSigns)));
#if HWY_TARGET == HWY_SCALAR
  F16 partner;
  for (int l = 0; l < kLanes; ++l) partner.part[l] = x.part[l ^ kStride];
  return Add(flipped, partner);
#else
  return ForParts<F16>([&](size_t p) HWY_ATTR {
    const auto v = x.part[p];
    const F16::Tag d;
    if constexpr (kStride == 1) return hn::Add(flipped.part[p], hn::Shuffle2301(v));
    if constexpr (kStride == 2) return hn::Add(flipped.part[p], hn::Shuffle1032(v));
    if constexpr (kStride == 4) return hn::Add(flipped.part[p], hn::SwapAdjacentBlocks(v));
    if constexpr (kStride == 8 && F16::kParts == 1)
      return hn::Add(flipped.part[p], hn::ConcatLowerUpper(d, v, v));
    return hn::Add(flipped.part[p], x.part[(p + 1) % F16::kParts]);
  });
#endif
}

// One group of 16 · kVectors values, `to` may be `x`.
template <int kVectors>
HWY_INLINE void HadamardGroup(const float* x, const uint32_t* flips, F16 factor, float* to) {
  F16 v[kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kVectors; ++i) {
    v[i] = Bits<float>(
        Xor(Load16(reinterpret_cast<const uint32_t*>(x + 16 * i)), Load16(flips + 16 * i)));
    v[i] = Butterfly16<8>(Butterfly16<4>(Butterfly16<2>(Butterfly16<1>(v[i]))));
  }
  Butterflies(v);
#pragma GCC unroll 8
  for (int i = 0; i < kVectors; ++i) Store16(Mul(v[i], factor), to + 16 * i);
}

template <int kVectors>
HWY_INLINE void HadamardTile(const Rows<const float>& from, const Rows<float>& to,
                             const uint32_t* flips, float factor) {
  const int64_t ahead = from.rows * from.stride;  // the rows of the next piece
  for (int64_t r = 0; r < from.rows; ++r)
    for (int64_t c = 0; c < from.cols; c += 16 * kVectors) {
      const float* x = from.row(r) + c;
      for (int i = 0; i < kVectors; ++i) hwy::Prefetch(x + ahead + 16 * i);
      HadamardGroup<kVectors>(x, flips, Set16(factor), to.row(r) + c);
    }
}

void HadamardRows(const Rows<const float>& from, const Rows<float>& to, int size,
                  const uint32_t* signs, float factor) {
  WithHadamardSigns(size, signs, [&](auto parts, const uint32_t* flips) HWY_ATTR {
    HadamardTile<parts>(from, to, flips, factor);
  });
}

// ---------------------------------------------------------------- block maxima

uint32_t AmaxBitsOfBf16(const Bf16* values, int64_t count) {
  const hn::CappedTag<uint16_t, 32> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* bits = reinterpret_cast<const uint16_t*>(values);
  const auto magnitude = hn::Set(d, uint16_t{0x7FFF});
  auto largest = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    largest = hn::Max(largest, hn::And(hn::LoadU(d, bits + i), magnitude));
  uint32_t amax = hn::GetLane(hn::MaxOfLanes(d, largest));
  for (; i < count; ++i) amax = std::max(amax, uint32_t{bits[i]} & 0x7FFFu);
  return amax << 16;
}

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

// The largest |bits| of every lane over `count` values, a multiple of 16.
HWY_INLINE I16 AmaxLanes(const int32_t* bits, int64_t count) {
  const I16 magnitude = Set16(0x7FFFFFFF);
  I16 m0 = And(Load16(bits), magnitude), m1 = m0;
  int64_t i = 16;
  for (; i + 32 <= count; i += 32) {
    m0 = Max(m0, And(Load16(bits + i), magnitude));
    m1 = Max(m1, And(Load16(bits + i + 16), magnitude));
  }
  if (i < count) m0 = Max(m0, And(Load16(bits + i), magnitude));
  return Max(m0, m1);
}

HWY_INLINE uint32_t AmaxBits(const float* x, int64_t count) {
  const auto* bits = reinterpret_cast<const int32_t*>(x);
  const int64_t whole = count / 16 * 16;
  I16 amax = whole > 0 ? AmaxLanes(bits, whole) : Zero16<int32_t>();
  if (whole < count) amax = Max(amax, And(Load16(bits + whole, count - whole), Set16(0x7FFFFFFF)));
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
HWY_INLINE void FourBlockAmax(const float* x, int64_t block, uint32_t* amax) {
  const auto* bits = reinterpret_cast<const int32_t*>(x);
  const I16 a = AmaxLanes(bits, block), b = AmaxLanes(bits + block, block);
  const I16 c = AmaxLanes(bits + 2 * block, block), e = AmaxLanes(bits + 3 * block, block);
  const I16 four = ForParts<I16>([&](size_t p) HWY_ATTR {
    return LargestOfFour(I16::Tag(), a.part[p], b.part[p], c.part[p], e.part[p]);
  });
  const hn::FixedTag<int32_t, 4> d4;
  auto* const to = reinterpret_cast<int32_t*>(amax);
  hn::StoreU(hn::Max(BlockMax(four), hn::LoadU(d4, to)), d4, to);
}
#endif

void BlockAmax(const float* values, int64_t stride, int64_t rows, int64_t cols,
               const AmaxTarget& target) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* x = values + r * stride;
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

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(TransposeWords);
HWY_EXPORT(WidenRows);
HWY_EXPORT(TransposeWidened);
HWY_EXPORT(AmaxBitsOfBf16);
HWY_EXPORT(HadamardRows);
HWY_EXPORT(BlockAmax);

void transpose_words(const uint32_t* from, int64_t from_stride, int64_t rows, int64_t cols,
                     uint32_t* to, int64_t to_stride) {
  HWY_DYNAMIC_DISPATCH(TransposeWords)(from, from_stride, rows, cols, to, to_stride);
}
void widen_rows(const Rows<const Bf16>& from, float* to, int64_t to_stride) {
  HWY_DYNAMIC_DISPATCH(WidenRows)(from, to, to_stride);
}
void transpose_widened(const Rows<const Bf16>& from, float* to, int64_t to_stride) {
  HWY_DYNAMIC_DISPATCH(TransposeWidened)(from, to, to_stride);
}
void hadamard_rows(const Rows<const float>& from, const Rows<float>& to, int size,
                   const uint32_t* signs, float factor) {
  HWY_DYNAMIC_DISPATCH(HadamardRows)(from, to, size, signs, factor);
}
uint32_t amax_bits(const Bf16* values, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(AmaxBitsOfBf16)(values, count);
}
void block_amax(const float* values, int64_t stride, int64_t rows, int64_t cols,
                const AmaxTarget& target) {
  HWY_DYNAMIC_DISPATCH(BlockAmax)(values, stride, rows, cols, target);
}

}  // namespace ng::cpu
#endif
