// FP32 tensors of all ranks become their sum on every rank, in an order that no transport decides.
#pragma once

#include <vector>

#include "comm/sum_tree.h"
#include "run/run.h"

namespace ng {

/// a += b, every sum rounded once to FP32.
[[nodiscard]] inline auto adding_tensors(Run& run) {
  return [&run](Tensor& a, const Tensor& b) { run.execute(Combine{.y = a, .x = b}); };
}

/// The sum over the nodes of all ranks, which are `nodes` by rank and this rank's in `mine`, FP32
/// and of one shape. Each rank sums a piece of the elements and sends it to all. `mine` is empty
/// afterwards. Called by all ranks; in a dry run nothing is sent.
[[nodiscard]] Tensor sum_over_ranks(Run& run, SumTree<Tensor>& mine,
                                    const std::vector<std::vector<TreeNode>>& nodes);

}  // namespace ng
