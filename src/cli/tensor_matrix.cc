#include "cli/tensor_matrix.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace ng::cli {
namespace {

constexpr int64_t kLongVector = int64_t{1} << 22;
constexpr int64_t kFold = int64_t{1} << 16;  // a multiple of every block and of a draw's 8 values

}  // namespace

TensorMatrix::TensorMatrix(const io::SafetensorsEntry& entry, int64_t axis)
    : elements_(entry.elements()), shape_(entry.shape) {
  const auto rank = static_cast<int64_t>(entry.shape.size());
  if (rank > 0) {
    axis_ = axis < 0 ? axis + rank : axis;
    if (axis_ < 0 || axis_ >= rank)
      throw Error({.place = entry.file,
                   .key = entry.name,
                   .problem = fmt::format("has {} dimensions, --axis {}", rank, axis),
                   .remedy = fmt::format("--axis from {} to {}", -rank, rank - 1)});
    const auto product = [&](int64_t first, int64_t last) {
      return std::accumulate(entry.shape.begin() + first, entry.shape.begin() + last, int64_t{1},
                             std::multiplies<>());
    };
    outer_ = product(0, axis_);
    k_ = entry.shape[static_cast<size_t>(axis_)];
    inner_ = product(axis_ + 1, rank);
  }
  rows_ = outer_ * inner_;
  cols_ = k_;
  if (outer_ == 1 && inner_ > 1) {
    along_ = Contract::rows;
    std::swap(rows_, cols_);
  } else if (rows_ == 1 && cols_ > kLongVector) {
    is_folded_ = true;
    rows_ = (cols_ + kFold - 1) / kFold;
    cols_ = kFold;
  }
}

Operand TensorMatrix::cast_of(Operand cast) const {
  if (!is_folded_ || cast.is_unscaled()) return cast;
  if (cast.block.kind == Block::Kind::row) cast.block = {};
  if (cast.block.kind == Block::Kind::tile) cast.block.rows = 1;
  return cast;
}

std::vector<int64_t> TensorMatrix::scale_shape(const Operand& cast) const {
  const Block& block = cast.block;
  if (block.kind == Block::Kind::tensor || shape_.empty()) return {1};
  const ScaleGrid grid = scale_grid(cast, along_, rows_, cols_);
  const bool has_rows_of_blocks = block.kind == Block::Kind::tile && block.rows > 1;
  if (has_rows_of_blocks && !is_folded_) return {grid.rows, grid.cols};
  std::vector<int64_t> shape = shape_;  // the axis counts blocks
  int64_t& blocks = shape[static_cast<size_t>(axis_)];
  blocks = block.kind == Block::Kind::row ? 1 : (blocks + block.cols - 1) / block.cols;
  return shape;
}

ErrorSums TensorMatrix::errors(int64_t row, ConstView panel, const std::vector<float>& narrow,
                               Threads threads) const {
  if (!is_folded_)
    return error_sums(panel, {narrow.data(), panel.rows, panel.cols, panel.cols}, threads);
  const int64_t count = std::min(panel.size(), elements_ - row * cols_);
  const int64_t whole = count / cols_ * cols_, rest = count - whole;
  const auto part = [&](int64_t first, int64_t rows, int64_t cols) {
    return error_sums({panel.data + first, rows, cols, cols},
                      {narrow.data() + first, rows, cols, cols}, threads);
  };
  ErrorSums sums = part(0, whole / cols_, cols_);
  sums.add(part(whole, rest > 0 ? 1 : 0, rest));
  return sums;
}

void TensorMatrix::for_runs(int64_t row, int64_t rows, int64_t cols, int64_t total,
                            const Put& put) const {
  const int64_t first = row * cols;
  if (!is_gathered() || total != rows_ * cols) {
    const int64_t count = std::min(rows * cols, total - first);
    if (count > 0) put(first, 0, count, 1);
    return;
  }
  for (int64_t r = row; r < row + rows;) {  // a part of one slab (cols, inner) at a time
    const int64_t slab = r / inner_, i = r % inner_;
    const int64_t count = std::min(inner_ - i, row + rows - r);
    for (int64_t c = 0; c < cols; ++c)
      put((slab * cols + c) * inner_ + i, (r - row) * cols + c, count, cols);
    r += count;
  }
}

void TensorMatrix::read(const io::FloatReader& reader, int64_t row, int64_t rows,
                        std::span<float> values) const {
  NG_CHECK(static_cast<int64_t>(values.size()) == rows * cols_, values.size(), rows, cols_);
  std::vector<float> run;
  if (is_folded_) std::fill(values.begin(), values.end(), 0.0f);
  for_runs(row, rows, cols_, elements_,
           [&](int64_t place, int64_t first, int64_t count, int64_t step) {
             const auto n = static_cast<size_t>(count);
             if (step == 1) return reader.read(place, values.subspan(0, n));
             run.resize(n);
             reader.read(place, run);
             for (int64_t j = 0; j < count; ++j)
               values[static_cast<size_t>(first + j * step)] = run[static_cast<size_t>(j)];
           });
}

}  // namespace ng::cli
