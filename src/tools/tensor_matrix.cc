#include "tools/tensor_matrix.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace ng {
namespace {

constexpr int64_t kMatrixPieceValues = int64_t{1} << 16;
constexpr int64_t kMostOfNothing = int64_t{1} << 24;

/// The largest number where that is larger still, as of the sizes of a tensor without values.
int64_t product_of(std::span<const int64_t> sizes) {
  int64_t product = 1;
  for (const int64_t size : sizes)
    if (__builtin_mul_overflow(product, size, &product)) return INT64_MAX;
  return product;
}

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
    const std::span<const int64_t> sizes = entry.shape;
    const auto at = static_cast<size_t>(axis_);
    outer_ = product_of(sizes.first(at));
    k_ = sizes[at];
    inner_ = product_of(sizes.subspan(at + 1));
    const auto at_least_1 = [](int64_t size) { return std::max<int64_t>(size, 1); };
    const std::array around = {at_least_1(outer_), at_least_1(k_), at_least_1(inner_)};
    is_boundless_ = entry.elements() == 0 && product_of(around) > kMostOfNothing;
    if (is_boundless_) outer_ = k_ = inner_ = 0;
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
  blocks = block.kind == Block::Kind::row ? 1 : blocks / block.cols + (blocks % block.cols > 0);
  return shape;
}

void TensorMatrix::for_pieces(const Panel& part, int64_t rows, int64_t cols,
                              const std::function<void(const Piece&)>& use) const {
  if (part.rows == 0 || part.cols == 0) return;
  if (!is_gathered() || rows != rows_) {  // row by row
    const bool whole = part.cols == cols;
    const int64_t runs = whole ? 1 : part.rows, lines = whole ? part.rows * cols : part.cols;
    for (int64_t r = 0; r < runs; ++r)
      use({.place = (part.row + r) * cols + part.col,
           .first = r * part.cols,
           .lines = lines,
           .row = part.cols});
    return;
  }
  for (int64_t r = 0; r < part.rows;) {
    const Piece slabs = slabs_at(part, cols, r);
    const int64_t lines = slabs.slabs > 1 ? part.cols
                          : slabs.width < inner_
                              ? 1  // the next one lies further on
                              : std::max<int64_t>(kMatrixPieceValues / inner_, 1);
    for (int64_t c = 0; c < part.cols; c += lines) {
      Piece piece = slabs;
      piece.place += c * inner_;
      piece.first += c;
      piece.lines = std::min(lines, part.cols - c);
      use(piece);
    }
    r += slabs.slabs * slabs.width;
  }
}

// From row r of the part on: several whole slabs (cols, inner), or what it has of one.
TensorMatrix::Piece TensorMatrix::slabs_at(const Panel& part, int64_t cols, int64_t r) const {
  const int64_t slab = (part.row + r) / inner_, i = (part.row + r) % inner_;
  const int64_t left = part.rows - r;
  Piece piece = {.place = (slab * cols + part.col) * inner_ + i,
                 .first = r * part.cols,
                 .lines = part.cols,
                 .width = std::min(inner_ - i, left),
                 .row = part.cols};
  if (piece.width == inner_ && part.cols == cols)
    piece.slabs = std::clamp<int64_t>(kMatrixPieceValues / inner_ / cols, 1, left / inner_);
  return piece;
}

void TensorMatrix::read(const io::FloatReader& reader, const Panel& panel,
                        std::span<float> values) const {
  NG_CHECK(static_cast<int64_t>(values.size()) == panel.rows * panel.cols, values.size());
  std::vector<float> together;
  for_pieces(panel, rows_, cols_, [&](const Piece& piece) {
    const auto size = static_cast<size_t>(piece.size());
    if (piece.width == 1)
      return reader.read(piece.place, values.subspan(static_cast<size_t>(piece.first), size));
    together.resize(size);
    reader.read(piece.place, together);
    scatter(piece, together.data(), values.data());
  });
}

}  // namespace ng
