#include "backend/cuda/kernels/line_operand.h"

#include <algorithm>

#include "backend/cuda/kernels/operand_tiles.h"

namespace ng::cuda {
namespace {

constexpr int kMostHadamardValues = kMostHadamardBlocks * kWarp;

/// The largest magnitude of the block of each value, NaN aside, and whether none is NaN or
/// infinite.
struct LargestOfBlocks {
  uint32_t bits[kMostHadamardBlocks];
  uint32_t beyond[kMostHadamardBlocks];

  __device__ LargestOfBlocks(const float (&x)[kMostHadamardBlocks], int width) {
    for (int b = 0; b < kMostHadamardBlocks; ++b) {
      const uint32_t magnitude = float_bits(x[b]) & 0x7FFFFFFFu;
      const int lanes = width < kWarp ? width : kWarp;
      beyond[b] = largest_bits_of_warp(magnitude >= kFloatInf ? 1u : 0u, lanes);
      bits[b] = largest_bits_of_warp(magnitude <= kFloatInf ? magnitude : 0u, lanes);
    }
    if (width > kWarp) share(0, 1), share(2, 3);
    if (width > 2 * kWarp) share(0, 2), share(1, 3);
  }

 private:
  __device__ void share(int a, int b) {
    bits[a] = bits[b] = bits[a] < bits[b] ? bits[b] : bits[a];
    beyond[a] = beyond[b] = beyond[a] | beyond[b];
  }
};

struct LineGroups {
  BlockJob job;
  [[nodiscard]] NG_HD const OperandGroups& from() const { return job.values.from; }
  [[nodiscard]] NG_HD OperandStats* stats() const { return job.stats; }

  __device__ void operator()(const GroupPlace& of, int lane, const float (&x)[kMostHadamardBlocks],
                             CastCounts& counts) const {
    const CardOperand& y = job.y;
    const auto width = static_cast<int>(y.scales.block_cols);  // a power of two
    const LargestOfBlocks largest(x, width);
    const float fit = first_fit(job.rule.cast, job.rule.range.max);
    for (int b = 0; b < kMostHadamardBlocks; ++b) {
      if (b >= from().blocks()) break;
      const int64_t k = of.at(b, lane), first = k & -int64_t{width};
      const bool is_inside = k < y.k_padded;
      const RegionScale by =
          is_inside ? job.rule.of_amax({of.row, of.row + 1, first, first + width},
                                       float_of_bits(largest.bits[b]), largest.beyond[b] == 0, fit)
                    : RegionScale{};
      const uint32_t code = is_inside ? code_of_value(job, by, of.row, k, x[b], counts) : 0;
      if (is_inside && k == first)
        put_region_scale(
            y.scales, of.row * y.scales.across + (k >> high_bit(static_cast<uint32_t>(width))), by);
      put_codes(of.row, k, code, is_inside);
    }
  }

 private:
  /// Codes of four bits by the lane of the first of a byte's two.
  __device__ void put_codes(int64_t row, int64_t k, uint32_t code, bool is_inside) const {
    const CodeRows& codes = job.y.codes;
    if (codes.together() == 1) {
      if (is_inside) codes.put(row, k, 1, [=](int) { return code; });
      return;
    }
    const uint32_t next = __shfl_down_sync(~0u, code, 1);
    if (is_inside && k % 2 == 0) codes.put(row, k, 2, [=](int i) { return i == 0 ? code : next; });
  }
};

/// With the values of a block in one group.
LineGroups line_groups(const BlockJob& job) {
  LineGroups made{job};
  made.job.values.from.together = std::max(kMxBlock, static_cast<int>(job.y.scales.block_cols));
  return made;
}

}  // namespace

bool is_of_lines(const BlockJob& job) {
  const Operand& cast = job.rule.cast;
  const int64_t width = job.y.scales.block_cols;
  return cast.block.kind == Block::Kind::tile && job.y.scales.block_rows == 1 && width >= 2 &&
         width <= kMostHadamardValues && (width & (width - 1)) == 0 && job.y.k_padded % 2 == 0 &&
         cast.scale != ScaleKind::e8m0 && choices_of(cast) < 2 && cast.rounding != Rounding::eden &&
         job.rule.statistic.of == ScaleOf::amax && job.y.codes.together() <= 2 &&
         job.values.strip == nullptr && job.taken.scales.data == nullptr && job.control == nullptr;
}

bool is_of_short_lines(const BlockJob& job) {
  return is_of_lines(job) && line_groups(job).from().fits_tile();
}

void round_lines(Stream stream, const BlockJob& job) { for_each_group(stream, line_groups(job)); }

bool round_lines_both(Stream stream, const BlockJob& straight, const BlockJob& turned) {
  return for_both_groups(stream, line_groups(straight), line_groups(turned));
}

}  // namespace ng::cuda
