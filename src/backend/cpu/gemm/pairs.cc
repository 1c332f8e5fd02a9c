#include "backend/cpu/gemm/pairs.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/gemm/pairs.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
// Panels of BF16 pairs are multiples of eight values wide.
using DU = hn::CappedTag<uint32_t, 8>;
using D16 = hn::CappedTag<uint16_t, 16>;

// The smallest magnitude but 0 of BF16 patterns; 2^16: there is none. 0 - 1 is the largest uint16.
uint32_t SmallestMagnitude(const uint16_t* patterns, int64_t count) {
  const D16 d;
  auto smallest = hn::Set(d, uint16_t{0xFFFF});
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::Lanes(d))) {
    const auto magnitude = hn::And(hn::LoadU(d, patterns + i), hn::Set(d, uint16_t{0x7FFF}));
    smallest = hn::Min(smallest, hn::Sub(magnitude, hn::Set(d, uint16_t{1})));
  }
  return uint32_t{hn::GetLane(hn::MinOfLanes(d, smallest))} + 1;
}

// The smallest magnitude but 0 of a tile, as FP32 bits less 1; all bits set: there is none.
uint32_t SmallestSum(const TileShape& shape, const TileIn& sums) {
  const DU d;
  const hn::RebindToFloat<DU> df;
  auto smallest = hn::Set(d, ~uint32_t{0});
  for (int i = 0; i < shape.rows; ++i)
    for (int j = 0; j < shape.cols; j += static_cast<int>(hn::Lanes(d))) {
      const auto sum = hn::BitCast(d, hn::LoadU(df, sums.data + i * sums.stride + j));
      const auto magnitude = hn::And(sum, hn::Set(d, 0x7FFFFFFFu));
      smallest = hn::Min(smallest, hn::Sub(magnitude, hn::Set(d, 1u)));
    }
  return hn::GetLane(hn::MinOfLanes(d, smallest));
}

// to [2 · count][width], the FP32 values of pairs [count][width].
void Widen(const uint32_t* pairs, int64_t count, int width, uint32_t* to) {
  const DU d;
  for (int64_t k = 0; k < count; ++k, pairs += width, to += 2 * width)
    for (int i = 0; i < width; i += static_cast<int>(hn::Lanes(d))) {
      const auto words = hn::LoadU(d, pairs + i);
      hn::StoreU(hn::And(words, hn::Set(d, 0xFFFF0000u)), d, to + i);
      hn::StoreU(hn::ShiftLeft<16>(words), d, to + width + i);
    }
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(SmallestMagnitude);
HWY_EXPORT(SmallestSum);
HWY_EXPORT(Widen);

namespace {

// Values of at least this magnitude are multiples of 2^-126, whatever their 24 bits.
constexpr uint32_t kSmallestSum = (127u - 103u) << 23;

int64_t pairs_of(int64_t count) { return ceil_div(count, kPair); }

// Whether all products of two such panels are multiples of 2^-126 and no value is subnormal: one
// with the exponent e is a multiple of 2^(e - 7).
bool are_never_subnormal(uint32_t smallest_left, uint32_t smallest_right) {
  const uint32_t left = smallest_left >> 7, right = smallest_right >> 7;  // exponents + 127
  return left > 0 && right > 0 && left + right >= 2 * (127 + 7) - 126;
}

bool are_never_subnormal(const TileShape& shape, const TileIn& sums) {
  return sums.data == nullptr || HWY_DYNAMIC_DISPATCH(SmallestSum)(shape, sums) >= kSmallestSum - 1;
}

void widen(const float* pairs, int64_t count, int width, float* to) {
  HWY_DYNAMIC_DISPATCH(Widen)
  (reinterpret_cast<const uint32_t*>(pairs), pairs_of(count), width,
   reinterpret_cast<uint32_t*>(to));
}

void sum_widened(const Job& job, int64_t count, const Panel& a, const Local& local, TileIn from,
                 TileOut to) {
  const TileShape shape = job.tile();
  float* left = local.widened;
  float* right = left + kWidenedK * shape.rows;
  for (int64_t k = 0; k < count; k += kWidenedK) {
    const int64_t piece = std::min(kWidenedK, count - k);
    widen(a.elements + k / kPair * shape.rows, piece, shape.rows, left);
    widen(local.right.elements + k / kPair * shape.cols, piece, shape.cols, right);
    job.kernel.fp32.chain(piece, left, right, from, to);
    from = {to.data, to.stride};
  }
}

}  // namespace

void note_smallest(const Panel& panel, int width, int64_t count) {
  const auto* patterns = reinterpret_cast<const uint16_t*>(panel.elements);
  *panel.smallest =
      HWY_DYNAMIC_DISPATCH(SmallestMagnitude)(patterns, kPair * pairs_of(count) * width);
}

void sum_bf16_pairs(const Job& job, int64_t count, const Panel& a, const Local& local, TileIn from,
                    TileOut to) {
  const bool is_exact =
      !job.may_flush || (are_never_subnormal(*a.smallest, *local.right.smallest) &&
                         are_never_subnormal(job.tile(), from));
  if (is_exact || count == 0)
    job.chains().chain(pairs_of(count), a.elements, local.right.elements, from, to);
  else
    sum_widened(job, count, a, local, from, to);
}

}  // namespace ng::cpu
#endif
