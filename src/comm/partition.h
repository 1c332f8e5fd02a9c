// Which rank owns which rows of which tensor: its owner sums a piece's gradients, keeps its states
// and updates it. Pure arithmetic, the same on every rank. [distributed.md §3; errata-2, 35, 36]
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "recipe/settings.h"

namespace ng {

/// A vector is one row.
struct MatrixSize {
  int64_t rows = 0, cols = 0;
  [[nodiscard]] int64_t elements() const { return rows * cols; }
};

/// Rows of a tensor that one rank owns.
struct Piece {
  int64_t tensor = 0;  ///< index into the list that was divided
  int64_t first_row = 0, rows = 0;
  int owner = 0;
  friend bool operator==(const Piece&, const Piece&) = default;
};

struct Partition {
  std::vector<Piece> pieces;   ///< by tensor, then by first row: together all rows, each once
  std::vector<int64_t> loads;  ///< elements by rank
  [[nodiscard]] int ranks() const { return static_cast<int>(loads.size()); }
  /// Mean load / largest load: 1 where all ranks have as much to do. 1 of nothing.
  [[nodiscard]] double balance() const;
};

/// Rows of a piece are a multiple of this but for a tensor's last: blocks of every format stay
/// whole. [errata-2, 36]
inline constexpr int64_t kPieceRows = 128;

/// Shard::tensor: whole tensors. Shard::flat: a tensor above the mean load, ceil(total / ranks), is
/// cut into the largest multiple of 128 rows with at most floor(mean / 4) elements, at least 128
/// rows. Either way the largest piece goes first, to the rank with the least load; of equal pieces
/// the earlier, of equal loads the lower rank. [Peng et al. 2023, FP8-LM; errata-2, 35, 36]
[[nodiscard]] Partition partition(std::span<const MatrixSize> tensors, int ranks,
                                  GradientRecipe::Shard shard);

}  // namespace ng
