// What must change where a thousand ranks train a model, in numbers. [distributed.md §8]
#pragma once

#include <optional>
#include <string>

#include "format/exact_sum.h"
#include "plan/rank_traffic.h"

namespace ng {

/// Of a bucket of gradients, of an all-reduce of a few numbers, of a node; figures of
/// distributed.md §8, for orders of magnitude.
inline constexpr double kBucketBytes = 200e6;
inline constexpr double kSmallAllReduceSeconds = 50e-6;
inline constexpr int64_t kRanksOfNode = 8;
inline constexpr int64_t kManyRanks = 1024;

/// How gradients of the blocks are added up where they are owned.
struct RankSums {
  enum class Kind : uint8_t {
    tree,   ///< FP32 values, by a fixed tree of ranks that rounds every sum to FP32
    ring,   ///< from rank to rank, rounded to the wire's format at every hop
    codes,  ///< integers in one unit that all ranks share, in FP32 or FP64, exactly
    values  ///< in FP64, in the order of ranks
  };
  Kind kind = Kind::tree;
  ExactRanks exact{};       ///< of `codes`, and were they not added on a `ring`
  int exact_exponents = 0;  ///< of `values`: how far apart those that add exactly may be
};
[[nodiscard]] std::string_view name_of(RankSums::Kind kind);
/// `ranks`: among which rows of the blocks are dealt.
[[nodiscard]] RankSums sums_of_ranks(const GradientRecipe& gradient, int64_t ranks);

struct ManyRanks {
  RankLayout layout;
  PayloadAgainst payload;
  double bucket = 0;         ///< bytes: all gradients of a rank, where they are fewer than one
  int64_t nodes = 0;         ///< that hold ranks of one group of data-parallel ranks
  double per_rank = 0;       ///< bytes of a bucket to each rank of the group
  double per_node = 0;       ///< to each node, where nodes sum first
  int64_t amax_reduces = 0;  ///< tensors with one scale for all of their gradient
  double amax_seconds = 0;   ///< one small all-reduce for each
  double balance_tensor = 1;
  double balance_flat = 1;  ///< were nothing that tensors are stored with of all their rows
  std::string wire;         ///< cast by which gradients of the blocks are sent
  RankSums sums{};
  size_t owned_bytes = 0;       ///< lost with the rank that has most: masters, states
  size_t checkpoint_bytes = 0;  ///< weights, masters and states of the model, each once
};
/// `tensor` as in the plan; ranks are 1,024. None for a plan that has as many.
[[nodiscard]] std::optional<ManyRanks> at_many_ranks(const Backend& backend, const RankPlan& plan);

}  // namespace ng
