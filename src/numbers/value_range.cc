#include "numbers/value_range.h"

#include <array>
#include <vector>

#include "math/round.h"

namespace ng {
namespace {

constexpr int64_t kRangeLanes = 16;
constexpr int64_t kStripCols = 1024;
constexpr int64_t kRangePieceCols = 1 << 16;

/// Ranges of sixteen interleaved sequences: what a compiler makes vectors of.
struct RangeLanes {
  std::array<float, kRangeLanes> low{};
  std::array<float, kRangeLanes> high{};
  std::array<uint32_t, kRangeLanes> magnitude{};  ///< the largest, as bits: NaN above Inf

  void note(const float* x, int64_t count) {
    for (int64_t j = 0; j < count; ++j) {
      const auto lane = static_cast<size_t>(j);
      low[lane] = x[j] < low[lane] ? x[j] : low[lane];
      high[lane] = x[j] > high[lane] ? x[j] : high[lane];
      const uint32_t bits = float_bits(x[j]) & 0x7FFFFFFFu;
      magnitude[lane] = bits > magnitude[lane] ? bits : magnitude[lane];
    }
  }
  [[nodiscard]] ValueRange range(size_t lane) const {
    return {low[lane], high[lane], magnitude[lane] < kFloatInf};
  }
};

ValueRange range_of(const float* x, int64_t count) {
  RangeLanes lanes;
  int64_t i = 0;
  for (; i + kRangeLanes <= count; i += kRangeLanes) lanes.note(x + i, kRangeLanes);
  lanes.note(x + i, count - i);
  ValueRange range;
  for (size_t lane = 0; lane < kRangeLanes; ++lane) range.add(lanes.range(lane));
  return range;
}

}  // namespace

void ValueRange::add(const ValueRange& other) {
  low = std::min(low, other.low);
  high = std::max(high, other.high);
  finite = finite && other.finite;
}

void note_values(ValueRange& range, Rows<const float> values, Threads threads) {
  std::vector<ValueRange> ranges(static_cast<size_t>(std::max(threads.count, 1)));
  const int64_t pieces = (values.cols + kRangePieceCols - 1) / kRangePieceCols;
  parallel_for(threads, values.rows * pieces, [&](int64_t item, int worker) {
    const int64_t col = item % pieces * kRangePieceCols;
    ranges[static_cast<size_t>(worker)].add(
        range_of(values.row(item / pieces) + col, std::min(kRangePieceCols, values.cols - col)));
  });
  for (const ValueRange& part : ranges) range.add(part);
}

void note_columns(std::span<ValueRange> ranges, Rows<const float> values, Threads threads) {
  const int64_t strips = (values.cols + kStripCols - 1) / kStripCols;
  parallel_for(threads, strips, [&](int64_t strip, int) {
    const int64_t end = std::min((strip + 1) * kStripCols, values.cols);
    for (int64_t col = strip * kStripCols; col < end; col += kRangeLanes) {
      const int64_t count = std::min(kRangeLanes, end - col);
      RangeLanes lanes;
      for (int64_t row = 0; row < values.rows; ++row) lanes.note(values.row(row) + col, count);
      for (int64_t j = 0; j < count; ++j)
        ranges[static_cast<size_t>(col + j)].add(lanes.range(static_cast<size_t>(j)));
    }
  });
}

}  // namespace ng
