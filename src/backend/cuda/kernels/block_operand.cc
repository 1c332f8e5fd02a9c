#include "backend/cuda/kernels/block_operand.h"

#include <algorithm>

#include "backend/cuda/kernels/line_operand.h"
#include "backend/cuda/kernels/one_scale.h"
#include "backend/cuda/kernels/operand_tiles.h"

namespace ng::cuda {
namespace {

/// Rows of an operand into the scratch, a group by a warp.
struct TransformGroups {
  OperandGroups groups;
  int64_t first_row;
  float* strip;
  [[nodiscard]] NG_HD const OperandGroups& from() const { return groups; }
  [[nodiscard]] NG_HD OperandStats* stats() const { return nullptr; }
  __device__ void operator()(const GroupPlace& of, int lane, const float (&x)[kMostHadamardBlocks],
                             CastCounts& /* counts */) const {
    for (int b = 0; b < kMostHadamardBlocks; ++b) {
      const int64_t k = of.at(b, lane);
      if (b < groups.blocks() && k < groups.k_padded)
        strip[(of.row - first_row) * groups.k_padded + k] = x[b];
    }
  }
};

/// The largest magnitude of a row's values in each region of the second level, by a warp.
struct FindLargestOfRegion {
  OperandValues values;
  CardScales second;
  int64_t first_row;
  __device__ void operator()(int64_t unit, int lane) const {
    const int64_t row = first_row + unit / second.across;
    const int64_t first = unit % second.across * second.region_cols;
    const int64_t end = first + second.region_cols, k_padded = values.from.k_padded;
    Largest largest;
    for (int64_t k = first + lane; k < end && k < k_padded; k += kWarp)
      largest.take(values(row, k));
    put_largest(largest, second.at(row, first), lane);
  }
};

/// The scales of two levels, of the largest magnitude.
struct DecideLevels {
  CardScale* scales;
  Operand cast;
  float max;
  const float* amax;  ///< at least so much is it; null: as the values say
  __device__ void operator()(int64_t /* row */, int64_t i) const {
    float largest = float_of_bits(scales[i].amax);
    if (amax != nullptr && *amax > largest) largest = *amax;
    const TwoLevelScale levels =
        two_level_scale(cast.tensor_scale, largest, first_fit(cast, max), cast.scale_max);
    scales[i].multiplier = levels.block;
    scales[i].decode = levels.tensor;
  }
};

/// The second level of a stored tensor, or its only scale.
struct TakeLevel {
  CardScale* scales;
  const float* from;  ///< null: 1
  __device__ void operator()(int64_t /* row */, int64_t i) const {
    scales[i].multiplier = 1;
    scales[i].decode = from != nullptr ? *from : 1.0f;
  }
};

/// The regions of an operand, each by a warp.
struct Regions {
  BlockJob job;
  int64_t first_block;  ///< row of blocks

  [[nodiscard]] __device__ Region region(int64_t i, int64_t j) const {
    const CardOperand& y = job.y;
    const auto end = [](int64_t a, int64_t b) { return a < b ? a : b; };
    return {i * y.scales.block_rows, end((i + 1) * y.scales.block_rows, y.rows),
            j * y.scales.block_cols, end((j + 1) * y.scales.block_cols, y.k_padded)};
  }
  /// That of a stored tensor, whose elements the values are. [recipes.md §7, rule g]
  [[nodiscard]] __device__ RegionScale take_scale(int64_t row, int64_t k) const {
    const BlockScales& scales = job.taken.scales;
    const int64_t at = job.y.is_turned ? scales.index(k, row) : scales.index(row, k);
    const bool has_codes = scales.kind == ScaleKind::e8m0 || scales.kind == ScaleKind::e4m3;
    return {.stored = scales.value(at), .code = has_codes ? scales.data[at] : 0u};
  }
  /// In every lane.
  [[nodiscard]] __device__ RegionScale scale_of(const Region& part, int lane) const {
    const bool is_whole = job.rule.cast.block.kind == Block::Kind::tensor && job.amax != nullptr;
    const RegionScale by = job.rule.choose(job.values, part, is_whole ? *job.amax : 0.0f, lane);
    const bool takes = job.taken.scales.data != nullptr && part.row < job.y.rows;
    return takes && part.k < job.y.k ? take_scale(part.row, part.k) : by;
  }
};

/// Scales alone.
struct ChooseRegion {
  Regions of;
  RegionScale* made;
  __device__ void operator()(int64_t unit, int lane) const {
    if (skips(of.job.control)) return;
    const int64_t across = of.job.y.scales.across;
    const Region part = of.region(of.first_block + unit / across, unit % across);
    const RegionScale by = of.scale_of(part, lane);
    if (lane == 0) made[unit] = by;
  }
};

/// Scales and codes.
struct RoundRegion {
  Regions of;
  __device__ void operator()(int64_t unit, int lane) const {
    const BlockJob& job = of.job;
    if (skips(job.control)) return;
    const CardOperand& y = job.y;
    const int64_t across = y.scales.across, i = of.first_block + unit / across, j = unit % across;
    if (job.stats != nullptr && i == 0 && j == 0 && lane == 0)
      count_values(job.stats, y.rows * y.k);
    const Region part = of.region(i, j);
    const RegionScale by = of.scale_of(part, lane);
    if (lane == 0) put_region_scale(y.scales, i * across + j, by);
    const int together = y.codes.together();
    const int64_t wide = (part.width() + together - 1) / together;
    CastCounts counts;
    for (int64_t n = lane; n < (part.row_end - part.row) * wide; n += kWarp) {
      const int64_t row = part.row + n / wide, k = part.k + n % wide * together;
      const int count = part.k_end - k < together ? static_cast<int>(part.k_end - k) : together;
      y.codes.put(row, k, count, [&](int c) {
        return code_of_value(job, by, row, k + c, job.values(row, k + c), counts);
      });
    }
    if (job.stats != nullptr) counts.put(job.stats, lane);
  }
};

/// What RoundingBackward makes of them; the encoder is given 0 of a block that is dropped.
struct PassRegion {
  Regions of;
  PassedGradient passed;
  __device__ void operator()(int64_t unit, int lane) const {
    const BlockJob& job = of.job;
    const int64_t across = job.y.scales.across;
    const Region part = of.region(of.first_block + unit / across, unit % across);
    const RegionScale by = of.scale_of(part, lane);
    for (int64_t n = lane; n < part.size(); n += kWarp) {
      const int64_t row = part.row + n / part.width(), k = part.k + n % part.width();
      passed.put(row, k, by.is_nan ? 0.0f : job.rule.scaled(by, job.values(row, k)));
    }
  }
};

/// eden: the scales of a row's Hadamard group grow or shrink, so that the rounded group meets the
/// values that it was made of. [linear.md 5]
struct CorrectScales {
  BlockJob job;
  int64_t first_row;
  __device__ void operator()(int64_t i, int64_t group) const {
    const CardOperand& y = job.y;
    const int64_t row = first_row + i, size = job.values.from.hadamard.size;
    const int64_t first = group * size;
    double squares = 0, products = 0;
    for (int64_t k = first; k < first + size; ++k) {
      const double before = job.values(row, k);
      const double after = y.element_at(row, k) * y.scale_at(row, k) * y.second.decode(row, k);
      squares += before * before;
      products += before * after;
    }
    const float correction = eden_correction(squares, products);
    for (int64_t k = first; k < first + size; k += y.scales.block_cols) {
      const ElementCast& cast = job.rule.element;
      const uint32_t random = job.values.random(cast, row, k);
      y.scales.data[y.scales.index(row, k)] = static_cast<uint8_t>(
          eden_scale_code(y.scale_at(row, k), correction, cast.sr_bits, random));
    }
  }
};

/// Regions that some rows consist of, which begin with one.
int64_t count_regions(const BlockScales& scales, int64_t rows) {
  return (rows + scales.block_rows - 1) / scales.block_rows * scales.across;
}

/// use(job, first, count) of all rows, some at a time where they go through a Hadamard transform:
/// that job has them transformed, in the scratch.
template <class Use>
void for_strips(Stream stream, const BlockJob& job, const Scratch& scratch, const Use& use) {
  const CardOperand& y = job.y;
  if (job.values.from.hadamard.size == 0) return use(job, 0, y.rows);
  const int64_t of_row = std::max<int64_t>(y.k_padded, 1);
  const int64_t room = static_cast<int64_t>(scratch.bytes / sizeof(float)) / of_row;
  const int64_t rows = room / y.scales.block_rows * y.scales.block_rows;
  const int64_t count = rows > 0 ? std::min(rows, y.rows) : std::min(y.scales.block_rows, y.rows);
  auto* strip = scratch.take<float>(Prepare::kName, count * of_row);
  for (int64_t first = 0; first < y.rows; first += count) {
    BlockJob part = job;
    part.values.strip = strip;
    part.values.strip_row = first;
    const int64_t some = std::min(count, y.rows - first);
    for_rows_of_groups(stream, TransformGroups{part.values.from, first, strip}, first, some);
    use(part, first, some);
  }
}

/// Of the second level.
void find_largest_of_regions(Stream stream, const BlockJob& job, const Scratch& scratch) {
  const CardScales& second = job.y.second;
  forget_scales(stream, second.data, second.count);
  for_strips(stream, job, scratch, [&](const BlockJob& part, int64_t first, int64_t count) {
    for_each_row(stream, count * second.across, FindLargestOfRegion{part.values, second, first});
  });
}

void find_levels(Stream stream, const BlockJob& job, const Scratch& scratch) {
  const CardScales& second = job.y.second;
  if (second.data == nullptr) return;
  if (job.taken.scales.data != nullptr)
    return for_each_place(stream, 1, second.count, TakeLevel{second.data, job.taken.tensor});
  const bool is_whole = job.rule.cast.tensor_block.kind == Block::Kind::tensor;
  if (is_whole && job.amax != nullptr)
    forget_scales(stream, second.data, second.count);
  else if (is_whole)
    find_operand_largest(stream, job.values.from, second.data);
  else
    find_largest_of_regions(stream, job, scratch);
  decide_levels(stream, second, job.rule.cast, is_whole ? job.amax : nullptr);
}

}  // namespace

void decide_levels(Stream stream, const CardScales& second, const Operand& cast,
                   const float* amax) {
  for_each_place(stream, 1, second.count,
                 DecideLevels{second.data, cast, range_of(*cast.element).max, amax});
}

void round_rows(Stream stream, const BlockJob& job, int64_t first, int64_t count) {
  const BlockScales& scales = job.y.scales;
  for_each_row(stream, count_regions(scales, count), RoundRegion{{job, first / scales.block_rows}});
  if (job.rule.cast.rounding != Rounding::eden) return;
  const int64_t group = job.values.from.hadamard.size;
  NG_CHECK(group > 0 && group % scales.block_cols == 0, group, scales.block_cols);
  for_each_place(stream, count, job.y.k_padded / group, CorrectScales{job, first});
}

void choose_region_scales(Stream stream, const BlockJob& job, int64_t first, int64_t count,
                          RegionScale* made) {
  const BlockScales& scales = job.y.scales;
  for_each_row(stream, count_regions(scales, count),
               ChooseRegion{{job, first / scales.block_rows}, made});
}

void prepare_blocks(Stream stream, const BlockJob& job, const Scratch& scratch) {
  find_levels(stream, job, scratch);
  if (is_of_lines(job)) return round_lines(stream, job);
  for_strips(stream, job, scratch, [&](const BlockJob& part, int64_t first, int64_t count) {
    round_rows(stream, part, first, count);
  });
}

bool prepare_blocks_both(Stream stream, const BlockJob& straight, const BlockJob& turned,
                         const Scratch& scratch) {
  if (!is_of_short_lines(straight) || !is_of_short_lines(turned)) return false;
  find_levels(stream, straight, scratch);
  find_levels(stream, turned, scratch);
  return round_lines_both(stream, straight, turned);
}

void pass_blocks(Stream stream, const BlockJob& job, const PassedGradient& passed,
                 const Scratch& scratch) {
  find_levels(stream, job, scratch);
  const BlockScales& scales = job.y.scales;
  for_strips(stream, job, scratch, [&](const BlockJob& part, int64_t first, int64_t count) {
    for_each_row(stream, count_regions(scales, count),
                 PassRegion{{part, first / scales.block_rows}, passed});
  });
}

}  // namespace ng::cuda
