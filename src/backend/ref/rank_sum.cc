#include "backend/ref/rank_sum.h"

#include <algorithm>
#include <cmath>

#include "backend/ref/number.h"
#include "backend/ref/update/store.h"
#include "format/codec.h"

namespace ng {

std::vector<float> exact_sum(ValuesByRank values) {
  std::vector<double> sums(values[0].size());
  for (const std::vector<float>& of_rank : values)
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(of_rank[i]);
  return {sums.begin(), sums.end()};
}

// The sum of two values of a format of up to 16 bits is exact in FP32, or within an ulp of the
// larger, which rounds to that either way: rounding it again is rounding once.
std::vector<float> ring_sum(const ElementFormat& element, ValuesByRank values, int64_t first,
                            int64_t n) {
  const ElementCodec codec(element);
  const bool rounds = element.bits < 32;
  // Of a byte a table is faster than decoding; of 16 bits it takes longer to make than most sums.
  const std::vector<float> table = element.bits <= 8 ? decode_table(element) : std::vector<float>{};
  const auto value_of = [&](uint32_t code) {
    return table.empty() ? codec.decode(code) : table[code];
  };
  const auto ranks = static_cast<int64_t>(values.size()), shard = (n + ranks - 1) / ranks;
  std::vector<float> sums(values[0].size());
  for (size_t i = 0; i < sums.size(); ++i) {
    const int64_t owner = (first + static_cast<int64_t>(i)) / shard;
    const auto of = [&](int64_t hop) {
      return values[static_cast<size_t>((owner + hop) % ranks)][i];
    };
    float running = of(1);
    for (int64_t hop = 2; hop <= ranks; ++hop) {
      running += of(hop);
      if (rounds) running = value_of(codec.encode(running));
    }
    sums[i] = running;
  }
  return sums;
}

std::vector<float> mean_of_sum(std::span<const float> sum, float encode_scale) {
  const float inverse = 1.0f / encode_scale;
  std::vector<float> mean;
  mean.reserve(sum.size());
  for (const float x : sum) mean.push_back(x * inverse);
  return mean;
}

uint64_t count_largest(const ElementFormat& element, std::span<const float> values) {
  const float largest = max_value(element);
  return static_cast<uint64_t>(
      std::ranges::count_if(values, [&](float x) { return std::fabs(x) == largest; }));
}

namespace ref {

void perform(const SumOfRanks& op) {
  std::vector<std::vector<float>> values;
  for (const ConstView& x : op.x) {
    NG_CHECK(same_shape(op.y, x), op.y.rows, op.y.cols, x.rows, x.cols);
    values.push_back(values_of(x));
  }
  const ElementFormat& element = *op.x[0].element;
  const std::vector<float> sum =
      op.rule == RankSum::ring ? ring_sum(element, values, op.first, op.size) : exact_sum(values);
  const std::vector<float> mean = mean_of_sum(sum, op.encode_scale);
  const Rows<float> y = op.y.as<float>();
  for (int64_t r = 0; r < op.y.rows; ++r)
    std::copy_n(&mean[static_cast<size_t>(r * op.y.cols)], op.y.cols, y.row(r));
  if (op.largest != nullptr) *op.largest += ng::count_largest(element, sum);
}

void perform(const CountLargest& op) {
  NG_CHECK(op.codes.element->bits == 8, op.codes.element->name);
  ConstView elements = op.codes;
  elements.scales = {};
  *op.count += ng::count_largest(*elements.element, values_of(elements));
}

}  // namespace ref
}  // namespace ng
