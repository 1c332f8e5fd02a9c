// Scales are gathered block by block with the rows of the panel side by side; everything else then
// works on rows as lanes.
#include "backend/cpu/gemm/scales.h"

#include <algorithm>

#include "backend/cpu/gemm/isa/microkernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/gemm/scales.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/gemm/width-inl.h"
#include "backend/cpu/simd/shuffle-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {
// Products of two scales in this range are no subnormals, not even times a scale_unit (2^-12 for
// two int8 operands). Those with sums below 2^40 of multiples of 2^-37 stay inside FP32's range.
constexpr float kSmallestPlain = 0x1p-56f;
constexpr float kLargestPlain = 0x1p43f;
// The code 0, which blocks of zeros have.
float ZeroBlockScale(const PanelSource& source) { return source.power_of_two ? 0x1p-127f : 0.0f; }

// Blocks [first, first + blocks) of a panel's rows.
struct Blocks {
  const PanelSource& source;
  const PanelPlace& place;
  int64_t first;
  int64_t count;

  [[nodiscard]] int64_t rows() const {
    return std::clamp<int64_t>(source.rows - place.row, 0, place.width);
  }
  [[nodiscard]] const float* scales(int64_t row) const {
    return source.scales + (place.row + row) * source.blocks + first;
  }
};

#if HWY_TARGET != HWY_SCALAR
// Four rows of four blocks.
HWY_INLINE void TransposeFour(const Blocks& from, int64_t row, int64_t block, float* to) {
  const hn::CappedTag<float, 4> d;
  const auto load = [&](int64_t r) HWY_ATTR { return hn::LoadU(d, from.scales(row + r) + block); };
  const int width = from.place.width;
  StoreTransposed(d, load(0), load(1), load(2), load(3), to + block * width + row, width);
}
#endif

// Scales of the second level that differ along K. [backend/ref/gemm.h]
void MultiplyByRegions(const Blocks& from, float* to) {
  const PanelSource& source = from.source;
  for (int64_t block = 0; block < from.count; ++block) {
    const float* second =
        source.region_scales + (from.first + block) * source.block / source.region_cols;
    float* scales = to + block * from.place.width;
    for (int64_t row = 0; row < from.rows(); ++row)
      scales[row] *= second[(from.place.row + row) / source.region_rows * source.regions];
  }
}

// to[block][row]; 1 for rows outside the operand.
void Gather(const Blocks& from, float* to) {
  int64_t whole_rows = 0, whole_blocks = 0;
#if HWY_TARGET != HWY_SCALAR
  whole_rows = from.rows() / 4 * 4;
  whole_blocks = from.count / 4 * 4;
  for (int64_t row = 0; row < whole_rows; row += 4)
    for (int64_t block = 0; block < whole_blocks; block += 4) TransposeFour(from, row, block, to);
#endif
  for (int64_t row = 0; row < from.place.width; ++row)
    for (int64_t block = row < whole_rows ? whole_blocks : 0; block < from.count; ++block)
      to[block * from.place.width + row] = row < from.rows() ? from.scales(row)[block] : 1.0f;
  if (from.source.region_scales != nullptr) MultiplyByRegions(from, to);
}

bool IsZeroBlockInterleaved(const PanelSource& source, int64_t row, int64_t block) {
  const auto* words = static_cast<const uint32_t*>(source.data);
  const int64_t first = block * source.block / kWord;
  for (int64_t w = first; w < first + source.block / kWord; ++w)
    if (words[interleaved_word(row, w, source.k / kWord)] != 0) return false;
  return true;
}

bool IsZeroBlock(const PanelSource& source, int64_t row, int64_t block) {
  if (source.interleaved) return IsZeroBlockInterleaved(source, row, block);
  const int64_t at = row * source.stride + block * source.block;
  const int64_t count = std::min(source.block, source.k - block * source.block);
  const auto all_zero = [=](const auto* elements, auto magnitude) {
    return std::all_of(elements + at, elements + at + count,
                       [=](auto bits) { return (bits & magnitude) == 0; });
  };
  if (source.values == PanelSource::Values::int8)
    return all_zero(static_cast<const uint8_t*>(source.data), 0xFF);
  if (source.values == PanelSource::Values::fp32)
    return all_zero(static_cast<const uint32_t*>(source.data), 0x7FFFFFFFu);
  return all_zero(static_cast<const uint16_t*>(source.data), 0x7FFF);
}

template <class D>
HWY_INLINE bool Has(D d, float scale, const float* scales, int64_t count) {
  auto found = hn::FirstN(d, 0);
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::Lanes(d)))
    found = hn::Or(found, hn::Eq(hn::LoadU(d, scales + i), hn::Set(d, scale)));
  return !hn::AllFalse(d, found);
}

// Any scale gives a block of zeros the same sums: `mark`, where its own says that it may be one.
void MarkZeroBlocks(const Blocks& from, float mark, float* scales) {
  const int width = from.place.width;
  const float zero = ZeroBlockScale(from.source);
  bool found = false;
  WithLanes(width, [&](auto d) HWY_ATTR { found = Has(d, zero, scales, from.count * width); });
  if (!found) return;
  for (int64_t block = 0; block < from.count; ++block)
    for (int64_t row = 0; row < from.rows(); ++row) {
      float& scale = scales[block * width + row];
      if (scale == zero && IsZeroBlock(from.source, from.place.row + row, from.first + block))
        scale = mark;
    }
}

template <class D>
HWY_INLINE hn::Mask<D> IsPlain(D d, hn::Vec<D> scale) {
  return hn::And(hn::Ge(scale, hn::Set(d, kSmallestPlain)),
                 hn::Le(scale, hn::Set(d, kLargestPlain)));
}

// `scale`, or 1 where it marks a block of zeros.
template <class D>
HWY_INLINE hn::Vec<D> Unmarked(D d, hn::Vec<D> scale) {
  return hn::IfThenElse(hn::Eq(scale, hn::Zero(d)), hn::Set(d, 1.0f), scale);
}

// The scales of one segment, ready for the kernels; whether all of them are plain.
template <class D>
HWY_INLINE bool FinishSegment(D d, const PanelSource& source, int width, float* scales) {
  bool plain = true;
  for (int i = 0; i < width; i += static_cast<int>(hn::Lanes(d))) {
    const auto scale = hn::LoadU(d, scales + i);
    plain = plain && hn::AllTrue(d, IsPlain(d, scale));
    hn::StoreU(hn::Mul(scale, hn::Set(d, source.scale_unit)), d, scales + i);
  }
  return plain;
}

// Whether the lanes of a group's blocks can share their smallest scale, which goes to `shared`.
template <class D>
HWY_INLINE bool Align(D d, const float* scales, int64_t blocks, int width, hn::Vec<D>& shared) {
  const auto zero = hn::Zero(d);
  const auto none = hn::Set(d, 2 * kLargestPlain);
  auto smallest = none, largest = zero;
  auto is_number = hn::Eq(zero, zero);
  for (int64_t b = 0; b < blocks; ++b) {
    const auto scale = hn::LoadU(d, scales + b * width);
    is_number = hn::And(is_number, hn::Eq(scale, scale));
    smallest = hn::Min(hn::IfThenElse(hn::Eq(scale, zero), none, scale), smallest);
    largest = hn::Max(scale, largest);
  }
  shared = hn::IfThenElse(hn::Eq(largest, zero), hn::Set(d, 1.0f), smallest);
  largest = Unmarked(d, largest);
  const auto fits = hn::Le(largest, hn::Mul(shared, hn::Set(d, float{kGroupFactor})));
  const auto plain = hn::And(IsPlain(d, shared), IsPlain(d, largest));
  return hn::AllTrue(d, hn::And(is_number, hn::And(fits, plain)));
}

// a / b of powers of two whose quotient is normal.
template <class D>
HWY_INLINE hn::Vec<D> Quotient(D d, hn::Vec<D> a, hn::Vec<D> b) {
  const hn::RebindToSigned<D> di;
  const auto exponents = hn::Sub(hn::BitCast(di, a), hn::BitCast(di, b));
  return hn::BitCast(d, hn::Add(exponents, hn::BitCast(di, hn::Set(d, 1.0f))));
}

// One group of four blocks: aligned, every row gets one scale and its blocks a shift.
template <class D>
HWY_INLINE void PackGroup(D d, const PanelSource& source, int width, int64_t blocks, float* scales,
                          float* shifts, int32_t* plain) {
  const auto one = hn::Set(d, 1.0f), unit = hn::Set(d, source.scale_unit);
  const auto lanes = static_cast<int>(hn::Lanes(d));
  hn::Vec<D> shared[kMaxTileCols];  // as many as a scalar target needs
  bool aligned = true;
  for (int i = 0; i < width && aligned; i += lanes)
    aligned = Align(d, scales + i, blocks, width, shared[i / lanes]);
  for (int64_t b = 0; b < blocks; ++b, scales += width, shifts += width) {
    plain[b] = aligned ? 1 : 0;
    for (int i = 0; i < width; i += lanes) {
      const auto read = hn::LoadU(d, scales + i);
      auto scale = Unmarked(d, read), shift = one;
      if (aligned) {
        scale = shared[i / lanes];
        shift = hn::IfThenElse(hn::Eq(read, hn::Zero(d)), one, Quotient(d, read, scale));
      }
      hn::StoreU(shift, d, shifts + i);
      hn::StoreU(hn::Mul(scale, unit), d, scales + i);
    }
  }
}

// From whether each segment is plain to how many are from there on.
void CountRuns(int32_t* plain, int64_t segments) {
  int32_t run = 0;
  for (int64_t s = segments - 1; s >= 0; --s) {
    run = plain[s] != 0 ? run + 1 : 0;
    plain[s] = run;
  }
}

void PackGroups(const PanelSource& source, const PanelPlace& place, const Panel& panel) {
  const Blocks from{source, place, place.k / 32, (place.count + 31) / 32};
  Gather(from, panel.scales);
  MarkZeroBlocks(from, 0, panel.scales);
  WithLanes(place.width, [&](auto d) HWY_ATTR {
    for (int64_t s = 0; s < from.count; s += kGroupBlocks)
      PackGroup(d, source, place.width, std::min(kGroupBlocks, from.count - s),
                panel.scales + s * place.width, panel.shifts + s * place.width, panel.plain + s);
  });
  CountRuns(panel.plain, from.count);
}

// One scale per row and segment, which is a whole block or a part of one.
void PackSegments(const PanelSource& source, const PanelPlace& place, const Panel& panel) {
  const int64_t segments = (place.count + source.segment - 1) / source.segment;
  const bool any_is_plain = !source.power_of_two && !source.looks_up;
  const auto gather = [&](int64_t s, int64_t blocks) {
    const int64_t first = (place.k + s * source.segment) / source.block;
    const Blocks from{source, place, first, blocks};
    Gather(from, panel.scales + s * place.width);
    if (!any_is_plain) MarkZeroBlocks(from, 1, panel.scales + s * place.width);
  };
  if (source.segment == source.block)
    gather(0, segments);
  else
    for (int64_t s = 0; s < segments; ++s) gather(s, 1);
  WithLanes(place.width, [&](auto d) HWY_ATTR {
    for (int64_t s = 0; s < segments; ++s)
      panel.plain[s] =
          FinishSegment(d, source, place.width, panel.scales + s * place.width) || any_is_plain;
  });
  CountRuns(panel.plain, segments);
}

void PackScales(const PanelSource& source, const PanelPlace& place, const Panel& panel) {
  if (source.use == ScaleUse::groups) return PackGroups(source, place, panel);
  if (source.use == ScaleUse::segments) return PackSegments(source, place, panel);
  if (source.use == ScaleUse::none) return;
  const int64_t first = place.k / source.block;
  const int64_t last = (place.k + place.count - 1) / source.block;
  Gather({source, place, first, last - first + 1}, panel.shifts);
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(PackScales);

void pack_scales(const PanelSource& source, const PanelPlace& place, const Panel& panel) {
  HWY_DYNAMIC_DISPATCH(PackScales)(source, place, panel);
}

}  // namespace ng::cpu
#endif
