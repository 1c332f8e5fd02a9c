#include "format/dot.h"

#include <narrowgauge/dot.h>

#include <algorithm>
#include <cmath>

#include "format/codec.h"
#include "library/access.h"
#include "numbers/product.h"

namespace narrowgauge {
namespace {

/// A matrix as operand rows along K, gathered in one place.
class Operand {
 public:
  explicit Operand(const Quantized& matrix)
      : matrix_(matrix), straight_(matrix.along == Along::cols) {
    check_parts(matrix);
    require(matrix.zeros.empty(), "a product of affine integers", "signed elements");
    const bool scaled = matrix.format.scale != ScaleKind::none;
    const bool tiled = scaled && matrix.format.block.kind == Block::Kind::tile;
    block_ = tiled ? matrix.format.block.cols : 0;
    scales_per_row_ = tiled ? (k() + block_ - 1) / block_ : scaled ? 1 : 0;
  }

  [[nodiscard]] int64_t rows() const { return straight_ ? matrix_.rows : matrix_.cols; }
  [[nodiscard]] int64_t k() const { return straight_ ? matrix_.cols : matrix_.rows; }
  [[nodiscard]] int64_t block() const { return block_; }
  [[nodiscard]] const Hadamard& hadamard() const { return matrix_.hadamard; }

  /// Where the codes and scales of a row were gathered.
  struct Memory {
    std::vector<uint16_t> codes;
    std::vector<float> scales;
  };
  [[nodiscard]] ng::NarrowRow row(int64_t i, Memory& memory) const {
    memory.codes.resize(static_cast<size_t>(k()));
    for (int64_t k0 = 0; k0 < k(); ++k0) {
      const int64_t at = straight_ ? i * matrix_.cols + k0 : k0 * matrix_.cols + i;
      memory.codes[static_cast<size_t>(k0)] = matrix_.codes[static_cast<size_t>(at)];
    }
    const ng::ScaleGrid grid = grid_of(matrix_);
    memory.scales.resize(static_cast<size_t>(scales_per_row_));
    for (int64_t s = 0; s < scales_per_row_; ++s) {
      const int64_t first = s * block_;
      const int64_t at = straight_ ? grid.at(i, first) : grid.at(first, i);
      memory.scales[static_cast<size_t>(s)] = matrix_.scales[static_cast<size_t>(at)];
    }
    return {.element = &ElementAccess::format_of(matrix_.format.element),
            .codes = memory.codes,
            .kind = matrix_.format.scale,
            .block = block_,
            .scales = memory.scales,
            .tensor_scale = matrix_.tensor_scale,
            .prescale = matrix_.format.prescale,
            .hadamard = matrix_.hadamard.size};
  }

 private:
  const Quantized& matrix_;
  bool straight_;
  int64_t block_ = 0;
  int64_t scales_per_row_ = 0;
};

void check_pair(const Operand& a, const Operand& b) {
  require(a.k() == b.k(), fmt::format("operands of lengths {} and {}", a.k(), b.k()), "one length");
  require(a.hadamard() == b.hadamard(),
          fmt::format("transforms of {} and {} values", a.hadamard().size, b.hadamard().size),
          "one size with the same signs");
  const int64_t larger = std::max(a.block(), b.block());
  const int64_t smaller = std::min(a.block(), b.block());
  require(smaller == 0 || larger % smaller == 0,
          fmt::format("blocks of {} and {}", larger, smaller),
          "the larger a multiple of the smaller");
}

void check_row(const Operand& operand, int64_t row) {
  require(row >= 0 && row < operand.rows(), fmt::format("row {} of {}", row, operand.rows()),
          "rows count from 0");
}

ng::NarrowBlock block_of(const CodedBlock& block) {
  const uint64_t count = block.element.code_count();
  for (const uint16_t code : block.codes)
    require(code < count, fmt::format("code {} of {}", code, block.element.short_name()),
            fmt::format("below {}", count));
  return {.element = &ElementAccess::format_of(block.element),
          .codes = block.codes,
          .kind = block.kind,
          .scale = block.scale};
}

std::vector<float> multiply_by_definition(const Operand& left, const Operand& right,
                                          ng::Threads threads) {
  const auto rows = static_cast<size_t>(left.rows()), cols = static_cast<size_t>(right.rows());
  std::vector<Operand::Memory> memory(cols);
  std::vector<ng::NarrowRow> right_rows(cols);
  for (size_t j = 0; j < cols; ++j) right_rows[j] = right.row(static_cast<int64_t>(j), memory[j]);
  std::vector<float> y(rows * cols);
  ng::parallel_for(threads, left.rows(), [&](int64_t i, int) {
    Operand::Memory of_left;
    const ng::NarrowRow row = left.row(i, of_left);
    for (size_t j = 0; j < cols; ++j)
      y[static_cast<size_t>(i) * cols + j] = ng::general_dot(row, right_rows[j]);
  });
  return y;
}

}  // namespace

float block_dot(const CodedBlock& a, const CodedBlock& b) {
  require(a.codes.size() == b.codes.size(),
          fmt::format("blocks of {} and {} codes", a.codes.size(), b.codes.size()), "one length");
  for (const CodedBlock* block : {&a, &b}) check_scale(block->kind, block->scale);
  return ng::block_dot(block_of(a), block_of(b));
}

float dot(const Quantized& a, int64_t i, const Quantized& b, int64_t j) {
  const Operand left(a), right(b);
  check_pair(left, right);
  check_row(left, i);
  check_row(right, j);
  Operand::Memory of_left, of_right;
  return ng::general_dot(left.row(i, of_left), right.row(j, of_right));
}

std::vector<float> multiply(const Quantized& a, const Quantized& b, int threads) {
  const Operand left(a), right(b);
  check_pair(left, right);
  const ng::Threads workers = threads_of(threads);
  const ng::NarrowMatrix x = narrow_matrix_of(a), y = narrow_matrix_of(b);
  if (!ng::are_operand(x) || !ng::are_operand(y))
    return multiply_by_definition(left, right, workers);
  return translated([&] { return ng::multiply(x, y, hadamard_of(a.hadamard), workers); });
}

}  // namespace narrowgauge
