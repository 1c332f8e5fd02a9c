#include "comm/partition.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "base/error.h"

namespace ng {
namespace {

using Shard = GradientRecipe::Shard;

int64_t rows_of_pieces(const MatrixSize& tensor, int64_t mean) {
  if (tensor.elements() <= mean) return tensor.rows;
  return std::max<int64_t>(mean / 4 / tensor.cols / kPieceRows, 1) * kPieceRows;
}

std::vector<Piece> cut(std::span<const MatrixSize> tensors, int64_t mean, Shard shard) {
  std::vector<Piece> pieces;
  for (size_t t = 0; t < tensors.size(); ++t) {
    const MatrixSize& tensor = tensors[t];
    const int64_t most = shard == Shard::flat ? rows_of_pieces(tensor, mean) : tensor.rows;
    for (int64_t first = 0; first < tensor.rows; first += most)
      pieces.push_back({.tensor = static_cast<int64_t>(t),
                        .first_row = first,
                        .rows = std::min(most, tensor.rows - first)});
  }
  return pieces;
}

}  // namespace

double Partition::balance() const {
  const int64_t total = std::accumulate(loads.begin(), loads.end(), int64_t{0});
  if (total == 0) return 1;
  const auto most = static_cast<double>(*std::max_element(loads.begin(), loads.end()));
  return static_cast<double>(total) / static_cast<double>(loads.size()) / most;
}

Partition partition(std::span<const MatrixSize> tensors, int ranks, Shard shard) {
  NG_CHECK(ranks >= 1, ranks);
  int64_t total = 0;
  for (const MatrixSize& tensor : tensors) total += tensor.elements();
  Partition parts{.pieces = cut(tensors, (total + ranks - 1) / ranks, shard),
                  .loads = std::vector<int64_t>(static_cast<size_t>(ranks))};
  const auto elements = [&](size_t piece) {
    return parts.pieces[piece].rows * tensors[static_cast<size_t>(parts.pieces[piece].tensor)].cols;
  };
  std::vector<size_t> order(parts.pieces.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return elements(a) > elements(b); });
  using Load = std::pair<int64_t, int>;  // elements, rank: the least is on top
  std::priority_queue<Load, std::vector<Load>, std::greater<>> least;
  for (int rank = 0; rank < ranks; ++rank) least.emplace(0, rank);
  for (const size_t piece : order) {
    const auto [load, rank] = least.top();
    least.pop();
    parts.pieces[piece].owner = rank;
    parts.loads[static_cast<size_t>(rank)] = load + elements(piece);
    least.emplace(load + elements(piece), rank);
  }
  return parts;
}

}  // namespace ng
