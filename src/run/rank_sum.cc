#include "run/rank_sum.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ng {
namespace {

/// How the elements of a tensor are dealt to the ranks that sum a piece each.
struct Pieces {
  int64_t elements;
  int ranks;
  [[nodiscard]] int64_t begin(int rank) const {
    const int64_t piece = (elements + ranks - 1) / ranks;
    return std::min(piece * rank, elements);
  }
  [[nodiscard]] size_t bytes_of(int rank) const {
    return static_cast<size_t>(begin(rank + 1) - begin(rank)) * sizeof(float);
  }
  [[nodiscard]] std::vector<size_t> bytes() const {
    std::vector<size_t> all;
    for (int rank = 0; rank < ranks; ++rank) all.push_back(bytes_of(rank));
    return all;
  }
};

std::span<std::byte> bytes_of(const View& fp32) {
  return {fp32.data, static_cast<size_t>(fp32.size()) * sizeof(float)};
}

/// The `slot`-th nodes of all ranks, of this rank's piece, come to lie at `to`, by rank.
void exchange(Comm& comm, const SumTree<Tensor>::Sum* mine, std::byte* to,
              const std::vector<size_t>& pieces, const std::vector<bool>& have) {
  const std::vector<size_t> none(pieces.size(), 0);
  const size_t own = pieces[static_cast<size_t>(comm.rank())];
  std::vector<size_t> in;
  for (const bool has : have) in.push_back(has ? own : 0);
  const std::span<std::byte> out =
      mine != nullptr ? bytes_of(mine->value.view()) : std::span<std::byte>();
  comm.all_to_all(Traffic::gradients, out, mine != nullptr ? pieces : none,
                  {to, std::accumulate(in.begin(), in.end(), size_t{0})}, in);
}

}  // namespace

Tensor sum_over_ranks(Run& run, SumTree<Tensor>& mine,
                      const std::vector<std::vector<TreeNode>>& nodes) {
  Comm& comm = run.comm();
  if (comm.ranks() == 1) return mine.finish(adding_tensors(run));
  const Tensor whole = mine.sums().front().value;
  const View all = whole.view();
  const Pieces pieces{all.size(), comm.ranks()};
  const size_t own = pieces.bytes_of(comm.rank());
  size_t most = 0;
  for (const std::vector<TreeNode>& of_rank : nodes) most = std::max(most, of_rank.size());
  const size_t slot_bytes = own * nodes.size();
  const Tensor room = run.bytes(most * slot_bytes, MemoryKind::gradients);
  if (!run.recording()) {
    // Where the nodes of a rank that has fewer would lie stays empty at the end of a slot.
    std::vector<std::vector<std::byte*>> places(nodes.size());
    for (size_t slot = 0; slot < most; ++slot) {
      std::vector<bool> have;
      std::byte* to = room.bytes() + slot * slot_bytes;
      std::byte* next = to;
      for (size_t rank = 0; rank < nodes.size(); ++rank) {
        have.push_back(slot < nodes[rank].size());
        places[rank].push_back(next);
        if (have.back()) next += own;
      }
      const auto& sums = mine.sums();
      exchange(comm, slot < sums.size() ? &sums[slot] : nullptr, to, pieces.bytes(), have);
    }
    const auto count = static_cast<int64_t>(own / sizeof(float));
    const auto add = [&](const View& a, const View& b) {
      if (count > 0) run.execute(Combine{.y = a, .x = b});
    };
    SumTree<View> tree;
    for (size_t rank = 0; rank < nodes.size(); ++rank)
      for (size_t slot = 0; slot < nodes[rank].size(); ++slot)
        tree.push(nodes[rank][slot], {places[rank][slot], fp32_format(), 1, count, count}, add);
    const View sum = tree.finish(add);
    comm.all_gather(Traffic::gradients, bytes_of(sum), bytes_of(all), pieces.bytes());
  }
  mine.sums().clear();
  return whole;
}

}  // namespace ng
