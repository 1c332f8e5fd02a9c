// Between ranks and the owners of rows: FP32 tensors of all ranks become their sum where the rows
// are owned, in an order that no transport decides; what an owner has made of rows comes to all.
// [distributed.md §1, §4]
#pragma once

#include <span>
#include <vector>

#include "comm/partition.h"
#include "comm/sum_tree.h"
#include "run/run.h"

namespace ng {

/// a += b, every sum rounded once to FP32.
[[nodiscard]] inline auto adding_tensors(Run& run) {
  return [&run](Tensor& a, const Tensor& b) { run.execute(Combine{.y = a, .x = b}); };
}

/// factor · the sum over the nodes of all ranks of `comm`, which are `nodes` by rank and this
/// rank's in `mine`, FP32 and of one shape: of each piece of the tensor that this rank owns, in
/// their order. `mine` is empty afterwards. Called by all ranks; in a dry run nothing is sent.
[[nodiscard]] std::vector<Tensor> sum_at_owners(Run& run, Comm& comm, SumTree<Tensor>& mine,
                                                std::span<const std::vector<TreeNode>> nodes,
                                                std::span<const Piece> pieces, float factor);

/// The rows of a tensor that lies whole on every rank become those of their owners, as they are
/// stored, scales too; only whole tensors have any. Called by all ranks of `comm`.
void send_rows(Run& run, Comm& comm, const View& tensor, std::span<const Piece> pieces);

}  // namespace ng
