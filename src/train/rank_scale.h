// What must change where a thousand ranks train a model, in numbers. [distributed.md §8]
#pragma once

#include <string_view>

#include "format/exact_sum.h"
#include "train/rank_traffic.h"

namespace ng {

/// Of a bucket of gradients, of an all-reduce of a few numbers, of a node; figures of
/// distributed.md §8, for orders of magnitude.
inline constexpr double kBucketBytes = 200e6;
inline constexpr double kSmallAllReduceSeconds = 50e-6;
inline constexpr int64_t kRanksOfNode = 8;
inline constexpr int64_t kManyRanks = 1024;

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
  double balance_flat = 1;      ///< were nothing that tensors are stored with of all their rows
  std::string_view wire;        ///< element that gradients of the blocks are sent as
  ExactRanks exact;             ///< up to how many ranks sums are exact
  bool shares_scale = false;    ///< of all ranks: else sums are of values, not of codes
  size_t owned_bytes = 0;       ///< lost with the rank that has most: masters, states
  size_t checkpoint_bytes = 0;  ///< weights, masters and states of the model, each once
};
/// `tensor` as in the plan; ranks are 1,024.
[[nodiscard]] ManyRanks at_many_ranks(const Backend& backend, const RankPlan& plan);

}  // namespace ng
