// A tensor as a matrix of blocks along one of its axes, read and written panel by panel.
#pragma once

#include <functional>
#include <span>

#include "io/safetensors.h"
#include "numbers/encoder.h"

namespace ng::cli {

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
  /// The axis counts blocks; tiles of several rows have the shape of their grid.
  [[nodiscard]] std::vector<int64_t> scale_shape(const Operand& cast) const;

  /// A panel of the matrix into `values`, row by row.
  void read(const io::FloatReader& reader, const Panel& panel, std::span<float> values) const;
  /// Where a part of the matrix, or of the scales of each of its rows, lies in the order of the
  /// tensor, in runs: `count` of them, the first at index `first` of the part and each next one
  /// `step` further, lie from `place` on. `rows`, `cols`: of what it is a part of; scales of tiles
  /// of several rows lie row by row.
  using Put = std::function<void(int64_t place, int64_t first, int64_t count, int64_t step)>;
  void for_runs(const Panel& part, int64_t rows, int64_t cols, const Put& put) const;

 private:
  void read_lines(const io::FloatReader& reader, const Panel& slab, float* values) const;

  int64_t outer_ = 1, k_ = 1, inner_ = 1;
  int64_t axis_ = 0;
  int64_t rows_ = 1, cols_ = 1;
  Contract along_ = Contract::cols;
  std::vector<int64_t> shape_;
};

}  // namespace ng::cli
