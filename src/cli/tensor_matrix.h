// A tensor as a matrix of blocks along one of its axes, read and written panel by panel.
#pragma once

#include <functional>
#include <span>

#include "io/safetensors.h"
#include "numbers/encoder.h"
#include "numbers/errors.h"

namespace ng::cli {

/// The tensor is (outer, k, inner), row-major, with blocks along k:
///   inner = 1   the matrix (outer, k), blocks along its columns
///   outer = 1   the matrix (k, inner), blocks along its rows
///   else        the matrix (outer · inner, k): the tensor with its axis moved to the end
/// A very long vector is folded into rows of kFold values, which changes no bit: blocks and draws
/// lie as before. Its last row is filled up with zeros.
class TensorMatrix {
 public:
  /// axis: negative ones count from the last. Throws Error where the tensor has no such axis.
  TensorMatrix(const io::SafetensorsEntry& entry, int64_t axis);

  [[nodiscard]] int64_t rows() const { return rows_; }
  [[nodiscard]] int64_t cols() const { return cols_; }
  [[nodiscard]] Contract along() const { return along_; }
  [[nodiscard]] bool is_gathered() const { return outer_ > 1 && inner_ > 1; }
  [[nodiscard]] int64_t axis() const { return axis_; }
  /// `cast` for the matrix: a row of a folded vector is the whole of it.
  [[nodiscard]] Operand cast_of(Operand cast) const;
  /// Shape of what has `cols` values or blocks for each row of the matrix, `rows` of them.
  [[nodiscard]] std::vector<int64_t> scale_shape(const Operand& cast) const;

  /// Rows [row, row + rows) of the matrix into `values`.
  void read(const io::FloatReader& reader, int64_t row, int64_t rows,
            std::span<float> values) const;
  /// Of a panel and what became of it; what fills up a folded vector does not count.
  [[nodiscard]] ErrorSums errors(int64_t row, ConstView panel, const std::vector<float>& narrow,
                                 Threads threads) const;
  /// Where values or scales of rows [row, row + rows) lie in the order of the tensor: calls
  /// put(place, first, count, step) for runs of `count` of them, the first at index `first` of the
  /// panel and each next one `step` further. The panel has `cols` of them a row, the tensor
  /// `total`.
  using Put = std::function<void(int64_t place, int64_t first, int64_t count, int64_t step)>;
  void for_runs(int64_t row, int64_t rows, int64_t cols, int64_t total, const Put& put) const;

 private:
  int64_t outer_ = 1, k_ = 1, inner_ = 1;
  int64_t axis_ = 0;
  int64_t elements_ = 0;
  int64_t rows_ = 1, cols_ = 1;
  bool is_folded_ = false;
  Contract along_ = Contract::cols;
  std::vector<int64_t> shape_;
};

}  // namespace ng::cli
