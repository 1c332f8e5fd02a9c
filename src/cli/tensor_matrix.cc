#include "cli/tensor_matrix.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace ng::cli {
namespace {

constexpr int64_t kPieceValues = int64_t{1} << 16;

}  // namespace

TensorMatrix::TensorMatrix(const io::SafetensorsEntry& entry, int64_t axis) : shape_(entry.shape) {
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
  }
}

std::vector<int64_t> TensorMatrix::scale_shape(const Operand& cast) const {
  const Block& block = cast.block;
  if (block.kind == Block::Kind::tensor || shape_.empty()) return {1};
  const ScaleGrid grid = scale_grid(cast, along_, rows_, cols_);
  const bool has_rows_of_blocks = block.kind == Block::Kind::tile && block.rows > 1;
  if (has_rows_of_blocks) return {grid.rows, grid.cols};
  std::vector<int64_t> shape = shape_;  // the axis counts blocks
  int64_t& blocks = shape[static_cast<size_t>(axis_)];
  blocks = block.kind == Block::Kind::row ? 1 : (blocks + block.cols - 1) / block.cols;
  return shape;
}

void TensorMatrix::for_runs(const Panel& part, int64_t rows, int64_t cols, const Put& put) const {
  if (part.rows == 0 || part.cols == 0) return;
  if (is_gathered() && rows == rows_) {
    for (int64_t r = 0; r < part.rows;) {  // a part of one slab (cols, inner) at a time
      const int64_t slab = (part.row + r) / inner_, i = (part.row + r) % inner_;
      const int64_t count = std::min(inner_ - i, part.rows - r);
      for (int64_t c = 0; c < part.cols; ++c)
        put((slab * cols + part.col + c) * inner_ + i, r * part.cols + c, count, part.cols);
      r += count;
    }
    return;
  }
  const int64_t first = part.row * cols + part.col;
  if (part.cols == cols) return put(first, 0, part.rows * cols, 1);
  for (int64_t r = 0; r < part.rows; ++r) put(first + r * cols, r * part.cols, part.cols, 1);
}

void TensorMatrix::read(const io::FloatReader& reader, const Panel& panel,
                        std::span<float> values) const {
  NG_CHECK(static_cast<int64_t>(values.size()) == panel.rows * panel.cols, values.size());
  if (!is_gathered())
    return for_runs(panel, rows_, cols_, [&](int64_t place, int64_t first, int64_t count, int64_t) {
      reader.read(place, values.subspan(static_cast<size_t>(first), static_cast<size_t>(count)));
    });
  for (int64_t r = 0; r < panel.rows;) {
    Panel slab = panel;
    slab.row += r;
    slab.rows = std::min(inner_ - slab.row % inner_, panel.rows - r);
    read_lines(reader, slab, values.data() + r * panel.cols);
    r += slab.rows;
  }
}

// Rows of one slab (k, inner) are columns in the file: several of its lines at a time, turned.
void TensorMatrix::read_lines(const io::FloatReader& reader, const Panel& slab,
                              float* values) const {
  const int64_t i = slab.row % inner_, line = slab.row / inner_ * k_ + slab.col;
  const bool whole = slab.rows * 8 >= inner_ || inner_ <= 64;  // else only what is needed
  const int64_t lines = whole ? std::max<int64_t>(kPieceValues / inner_, 1) : 1;
  std::vector<float> piece;
  for (int64_t c = 0; c < slab.cols; c += lines) {
    const int64_t count = std::min(lines, slab.cols - c);
    piece.resize(static_cast<size_t>(whole ? count * inner_ : slab.rows));
    reader.read((line + c) * inner_ + (whole ? 0 : i), piece);
    for (int64_t l = 0; l < count; ++l)
      for (int64_t r = 0; r < slab.rows; ++r)
        values[r * slab.cols + c + l] = piece[static_cast<size_t>(whole ? l * inner_ + i + r : r)];
  }
}

}  // namespace ng::cli
