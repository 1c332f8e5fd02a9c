// Gradients of several ranks, encoded, become one. The bits of `ref`. [rank_operations.h]
#include <cmath>

#include "backend/cuda/kernels/operand_groups.h"
#include "backend/cuda/kernels/stored.h"

namespace ng::cuda {
namespace {

constexpr size_t kMostRanks = 64;      ///< that a kernel is passed
constexpr size_t kMostPassed = 32764;  ///< bytes; 4,096 before CUDA 12.1

struct CountLargestEach {
  StoredSource codes;
  float largest;
  uint64_t* count;
  __device__ void operator()(int64_t row, int64_t col) const {
    if (std::fabs(decode_element(codes.element, codes.codes(row, col))) == largest)
      count_one(count);
  }
};

struct SumEach {
  StoredSource x[kMostRanks];
  int64_t ranks;
  Target y;
  RankSum rule;
  bool rounds;  ///< ring: the running value, to the element
  int64_t first, shard;
  float inverse;    ///< of the encode scale
  float largest;    ///< of the element
  uint64_t* count;  ///< null: uncounted

  [[nodiscard]] __device__ float sum(int64_t row, int64_t col) const {
    if (rule == RankSum::exact) {
      double total = 0;
      for (int64_t rank = 0; rank < ranks; ++rank) total += static_cast<double>(x[rank](row, col));
      return static_cast<float>(total);
    }
    const int64_t owner = (first + row * y.cols + col) / shard;
    float running = x[(owner + 1) % ranks](row, col);
    for (int64_t hop = 2; hop <= ranks; ++hop) {
      running += x[(owner + hop) % ranks](row, col);
      const ElementCast& element = x[0].element;
      if (rounds) running = decode_element(element, encode_element(element, running, {}));
    }
    return running;
  }
  __device__ void operator()(int64_t row, int64_t col) const {
    const float total = sum(row, col);
    y.put(row, col, total * inverse);
    if (count != nullptr && std::fabs(total) == largest) count_one(count);
  }
};

static_assert(sizeof(SumEach) + 2 * sizeof(int64_t) <= kMostPassed);

}  // namespace

void perform(Stream stream, const SumOfRanks& op) {
  if (op.x.size() > kMostRanks)
    throw Unsupported("cuda: sum_of_ranks of more than " + std::to_string(kMostRanks) + " ranks");
  const auto ranks = static_cast<int64_t>(op.x.size());
  SumEach sum{.x = {},
              .ranks = ranks,
              .y = target_of(SumOfRanks::kName, op.y),
              .rule = op.rule,
              .rounds = op.x[0].element->bits < 32,
              .first = op.first,
              .shard = (op.size + ranks - 1) / ranks,
              .inverse = 1.0f / op.encode_scale,
              .largest = range_of(*op.x[0].element).max,
              .count = op.largest};
  for (size_t rank = 0; rank < op.x.size(); ++rank) {
    NG_CHECK(same_shape(op.y, op.x[rank]), op.y.rows, op.y.cols, op.x[rank].rows, op.x[rank].cols);
    sum.x[rank] = stored_source(op.x[rank]);
  }
  for_each_place(stream, op.y.rows, op.y.cols, sum);
}

void perform(Stream stream, const CountLargest& op) {
  NG_CHECK(op.codes.element->bits == 8, op.codes.element->name);
  for_each_place(
      stream, op.codes.rows, op.codes.cols,
      CountLargestEach{stored_source(op.codes), range_of(*op.codes.element).max, op.count});
}

}  // namespace ng::cuda
