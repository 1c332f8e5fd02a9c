// A tensor as a matrix of blocks along one of its axes, read and written panel by panel.
#pragma once

#include <functional>
#include <span>

#include "io/safetensors.h"
#include "numbers/encoder.h"

namespace ng {

/// The tensor is (outer, k, inner), row-major, with blocks along k:
///   inner = 1   the matrix (outer, k), blocks along its columns
///   outer = 1   the matrix (k, inner), blocks along its rows
///   else        the matrix (outer · inner, k): the tensor with its axis moved to the end
class TensorMatrix {
 public:
  /// axis: negative ones count from the last. Throws Error where the tensor has no such axis.
  TensorMatrix(const io::SafetensorsEntry& entry, int64_t axis);

  [[nodiscard]] int64_t rows() const { return rows_; }
  [[nodiscard]] int64_t cols() const { return cols_; }
  [[nodiscard]] Contract along() const { return along_; }
  [[nodiscard]] bool is_gathered() const { return outer_ > 1 && inner_ > 1; }
  [[nodiscard]] int64_t axis() const { return axis_; }
  /// It has no values but so many rows or columns of none that they are left out: it is (0, 0).
  [[nodiscard]] bool is_boundless() const { return is_boundless_; }
  /// The axis counts blocks; tiles of several rows have the shape of their grid.
  [[nodiscard]] std::vector<int64_t> scale_shape(const Operand& cast) const;

  /// Rows that lie side by side in the file: with all of them in a panel, it is read in one go.
  [[nodiscard]] int64_t rows_together() const { return is_gathered() ? inner_ : 1; }

  /// A panel of the matrix into `values`, row by row.
  void read(const io::FloatReader& reader, const Panel& panel, std::span<float> values) const;

  /// What lies together in the order of the tensor, from `place` on: (slabs, lines, width). Value
  /// (s, l, w) of it has index first + (s · width + w) · row + l of a part of the matrix.
  struct Piece {
    int64_t place = 0, first = 0;
    int64_t slabs = 1, lines = 1, width = 1;
    int64_t row = 0;
    [[nodiscard]] int64_t size() const { return slabs * lines * width; }
  };
  /// The pieces of a part of the matrix, or of the scales of each of its rows. `rows`, `cols`: of
  /// what it is a part of; scales of tiles of several rows lie row by row.
  void for_pieces(const Panel& part, int64_t rows, int64_t cols,
                  const std::function<void(const Piece& piece)>& use) const;

 private:
  [[nodiscard]] Piece slabs_at(const Panel& part, int64_t cols, int64_t r) const;

  int64_t outer_ = 1, k_ = 1, inner_ = 1;
  int64_t axis_ = 0;
  bool is_boundless_ = false;
  int64_t rows_ = 1, cols_ = 1;
  Contract along_ = Contract::cols;
  std::vector<int64_t> shape_;
};

/// The values of a piece, in the order of the tensor, from those of the part of the matrix.
template <class Value>
void gather(const TensorMatrix::Piece& piece, const Value* part, Value* together) {
  for (int64_t s = 0; s < piece.slabs; ++s)
    for (int64_t l = 0; l < piece.lines; ++l) {
      const Value* from = part + piece.first + s * piece.width * piece.row + l;
      for (int64_t w = 0; w < piece.width; ++w) *together++ = from[w * piece.row];
    }
}

/// And back.
template <class Value>
void scatter(const TensorMatrix::Piece& piece, const Value* together, Value* part) {
  for (int64_t s = 0; s < piece.slabs; ++s)
    for (int64_t l = 0; l < piece.lines; ++l) {
      Value* to = part + piece.first + s * piece.width * piece.row + l;
      for (int64_t w = 0; w < piece.width; ++w) to[w * piece.row] = *together++;
    }
}

}  // namespace ng
