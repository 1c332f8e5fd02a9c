#include "backend/cpu/gemm/tile.h"

#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/gemm/tile.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/simd/bf16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The FP32 lanes that one vector of FP64 can hold, and whole vectors.
using DD = hn::CappedTag<double, 8>;
using DN = hn::Rebind<float, DD>;
using DF = hn::CappedTag<float, 16>;
using DI = hn::RebindToSigned<DF>;
using VF = hn::Vec<DF>;
using VN = hn::Vec<DN>;

// body(offset into the tile, left scale, right scales) for every vector of a tile.
template <class D, class Body>
HWY_INLINE void ForVectors(D d, const TileShape& shape, const SegmentScales& scales,
                           const Body& body) {
  for (int i = 0; i < shape.rows; ++i) {
    const auto left = hn::Set(d, scales.left[i]);
    for (int j = 0; j < shape.cols; j += static_cast<int>(hn::Lanes(d)))
      body(i * shape.cols + j, left, hn::LoadU(d, scales.right + j));
  }
}

// Highway's scalar DemoteTo turns what overflows into the largest value instead of infinity.
HWY_INLINE VN RoundToFp32(hn::Vec<DD> x) {
#if HWY_TARGET == HWY_SCALAR
  return VN(static_cast<float>(x.raw));
#else
  return hn::DemoteTo(DN(), x);
#endif
}

void AddScalbn(const TileShape& shape, float* acc, const float* sums, const SegmentScales& scales) {
  const DN d;
  const DD dd;
  const VN one = hn::Set(d, 1.0f);
  ForVectors(d, shape, scales, [&](int at, VN left, VN right) HWY_ATTR {
    const VN m =
        hn::Mul(scales.left_power_of_two ? one : left, scales.right_power_of_two ? one : right);
    const VN power_left = scales.left_power_of_two ? left : one;
    const VN power_right = scales.right_power_of_two ? right : one;
    const VN scaled = hn::Mul(hn::LoadU(d, sums + at), m);
    const auto power = hn::Mul(hn::PromoteTo(dd, power_left), hn::PromoteTo(dd, power_right));
    const VN product = RoundToFp32(hn::Mul(hn::PromoteTo(dd, scaled), power));
    hn::StoreU(hn::Add(hn::LoadU(d, acc + at), product), d, acc + at);
  });
}

// Right scales stay in registers over the rows.
template <class Blocks>
HWY_INLINE void AddBlocks(const TileShape& shape, Blocks blocks, float* acc, const float* sums,
                          const SegmentScales& scales) {
  const DN d;
  const DD dd;
  for (int j = 0; j < shape.cols; j += static_cast<int>(hn::Lanes(d))) {
    hn::Vec<DD> right[kGroupBlocks];
    for (int64_t b = 0; b < blocks; ++b)
      right[b] = hn::PromoteTo(dd, hn::LoadU(d, scales.right + b * shape.cols + j));
    for (int i = 0; i < shape.rows; ++i) {
      const int at = i * shape.cols + j;
      auto sum = hn::Zero(dd);
      for (int64_t b = 0; b < blocks; ++b) {
        const auto left = hn::Set(dd, static_cast<double>(scales.left[b * shape.rows + i]));
        const auto of_block = hn::LoadU(d, sums + b * shape.rows * shape.cols + at);
        sum = hn::Add(sum, hn::Mul(hn::PromoteTo(dd, of_block), hn::Mul(left, right[b])));
      }
      hn::StoreU(hn::Add(hn::LoadU(d, acc + at), RoundToFp32(sum)), d, acc + at);
    }
  }
}

void AddGroup(const TileShape& shape, int64_t blocks, float* acc, const float* sums,
              const SegmentScales& scales) {
  if (blocks == kGroupBlocks)
    AddBlocks(shape, std::integral_constant<int64_t, kGroupBlocks>(), acc, sums, scales);
  else
    AddBlocks(shape, blocks, acc, sums, scales);
}

void AddIntegers(const TileShape& shape, int32_t* totals, const float* sums) {
  const DF d;
  const DI di;
  for (int at = 0; at < shape.rows * shape.cols; at += static_cast<int>(hn::Lanes(d))) {
    const auto sum = hn::ConvertTo(di, hn::LoadU(d, sums + at));
    hn::StoreU(hn::Add(hn::LoadU(di, totals + at), sum), di, totals + at);
  }
}

void ConvertSums(const TileShape& shape, const int32_t* from, float* to) {
  const DF d;
  const DI di;
  for (int at = 0; at < shape.rows * shape.cols; at += static_cast<int>(hn::Lanes(d)))
    hn::StoreU(hn::ConvertTo(d, hn::LoadU(di, from + at)), d, to + at);
}

void AddTotals(const TileShape& shape, float* acc, int32_t* totals) {
  const DF d;
  const DI di;
  for (int at = 0; at < shape.rows * shape.cols; at += static_cast<int>(hn::Lanes(d))) {
    const VF sum = hn::ConvertTo(d, hn::LoadU(di, totals + at));
    hn::StoreU(hn::Add(hn::LoadU(d, acc + at), sum), d, acc + at);
    hn::StoreU(hn::Zero(di), di, totals + at);
  }
}

template <class D>
HWY_INLINE hn::Vec<D> RoundToBf16(D d, hn::Vec<D> x) {
  const hn::RebindToUnsigned<D> du;
  const auto u = hn::BitCast(du, x);
  const auto odd = hn::And(hn::ShiftRight<16>(u), hn::Set(du, 1u));
  const auto r = hn::And(hn::Add(hn::Add(u, hn::Set(du, 0x7FFFu)), odd), hn::Set(du, 0xFFFF0000u));
  const auto quiet = hn::Or(u, hn::Set(du, 0x00400000u));
  const auto is_nan = hn::Gt(hn::And(u, hn::Set(du, 0x7FFFFFFFu)), hn::Set(du, 0x7F800000u));
  return hn::BitCast(d, hn::IfThenElse(is_nan, quiet, r));
}

template <class D>
HWY_INLINE hn::Vec<D> LoadOutput(D d, const float* y) {
  return hn::LoadU(d, y);
}
template <class D>
HWY_INLINE hn::Vec<D> LoadOutput(D d, const Bf16* y) {
  const hn::RebindToUnsigned<D> du;
  const auto half = hn::LoadU(hn::Rebind<uint16_t, D>(), reinterpret_cast<const uint16_t*>(y));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, half)));
}

template <class D>
HWY_INLINE void StoreOutput(D d, hn::Vec<D> value, bool to_bf16, float* y) {
  hn::StoreU(to_bf16 ? RoundToBf16(d, value) : value, d, y);
}
template <class D>
HWY_INLINE void StoreOutput(D d, hn::Vec<D> value, bool, Bf16* y) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (hn::MaxLanes(D()) == kLanes)
    if (StoreConverted(value.raw, y)) return;
#endif
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint16_t, D> half;
  // As signed words, whose upper halves are zero, so that nothing saturates.
  const auto bits =
      hn::ShiftRight<16>(hn::BitCast(hn::RebindToUnsigned<D>(), RoundToBf16(d, value)));
  hn::StoreU(hn::DemoteTo(half, hn::BitCast(di, bits)), half, reinterpret_cast<uint16_t*>(y));
}

// Lanes(d) outputs of row i from column j on.
template <class D, class Output>
HWY_INLINE void FinishLanes(D d, const Finish& finish, int64_t i, int64_t j,
                            const float* HWY_RESTRICT acc, Output* HWY_RESTRICT y) {
  auto t = hn::LoadU(d, acc);
  if (finish.scaled) {
    const auto ends =
        hn::Mul(hn::Set(d, finish.left_scale[i]), hn::LoadU(d, finish.right_scale + j));
    t = hn::Mul(t, hn::Mul(ends, hn::Set(d, finish.alpha)));
  }
  if (finish.bias != nullptr) t = hn::Add(t, hn::LoadU(d, finish.bias + j));
  if (finish.add) t = hn::Add(LoadOutput(d, y), t);
  StoreOutput(d, t, finish.to_bf16, y);
}

template <class Output>
HWY_INLINE void FinishRows(const TileShape& shape, const TileIn& acc, Output* y, int64_t y_stride,
                           const Finish& finish) {
  const hn::CappedTag<float, 16> d;
  const hn::CappedTag<float, 1> d1;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < shape.rows; ++i) {
    const float* from = acc.data + i * acc.stride;
    Output* to = y + i * y_stride;
    int64_t j = 0;
    for (; j + lanes <= shape.cols; j += lanes) FinishLanes(d, finish, i, j, from + j, to + j);
    for (; j < shape.cols; ++j) FinishLanes(d1, finish, i, j, from + j, to + j);
  }
}

void FinishTile(const TileShape& shape, const TileIn& acc, const TileOut& y, const Finish& finish) {
  FinishRows(shape, acc, y.data, y.stride, finish);
}
void FinishTileAsBf16(const TileShape& shape, const TileIn& acc, Bf16* y, int64_t stride,
                      const Finish& finish) {
  FinishRows(shape, acc, y, stride, finish);
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {

HWY_EXPORT(AddScalbn);
HWY_EXPORT(AddGroup);
HWY_EXPORT(AddIntegers);
HWY_EXPORT(ConvertSums);
HWY_EXPORT(AddTotals);
HWY_EXPORT(FinishTile);
HWY_EXPORT(FinishTileAsBf16);

void add_scalbn(const TileShape& shape, float* acc, const float* sums,
                const SegmentScales& scales) {
  HWY_DYNAMIC_DISPATCH(AddScalbn)(shape, acc, sums, scales);
}

void add_group(const TileShape& shape, int64_t blocks, float* acc, const float* sums,
               const SegmentScales& scales) {
  HWY_DYNAMIC_DISPATCH(AddGroup)(shape, blocks, acc, sums, scales);
}

void add_integers(const TileShape& shape, int32_t* totals, const float* sums) {
  HWY_DYNAMIC_DISPATCH(AddIntegers)(shape, totals, sums);
}

void convert_sums(const TileShape& shape, const int32_t* from, float* to) {
  HWY_DYNAMIC_DISPATCH(ConvertSums)(shape, from, to);
}

void add_totals(const TileShape& shape, float* acc, int32_t* totals) {
  HWY_DYNAMIC_DISPATCH(AddTotals)(shape, acc, totals);
}

void finish_tile(const TileShape& shape, TileIn acc, TileOut y, const Finish& finish) {
  HWY_DYNAMIC_DISPATCH(FinishTile)(shape, acc, y, finish);
}

void finish_tile(const TileShape& shape, TileIn acc, Bf16* y, int64_t stride,
                 const Finish& finish) {
  HWY_DYNAMIC_DISPATCH(FinishTileAsBf16)(shape, acc, y, stride, finish);
}

}  // namespace ng::cpu
#endif
