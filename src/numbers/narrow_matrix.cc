#include "numbers/narrow_matrix.h"

#include <algorithm>

#include "backend/cpu/dequantize.h"
#include "backend/cpu/workspace.h"
#include "numbers/encoder.h"

namespace ng {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

template <class Value>
void append(std::vector<Value>& to, const std::vector<Value>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

/// More rows of the same matrix.
void append(NarrowMatrix& matrix, const NarrowMatrix& panel) {
  const bool repeats = scale_spans_rows(matrix.cast, matrix.along);
  matrix.rows += panel.rows;
  matrix.grid = scale_grid(matrix.cast, matrix.along, matrix.rows, matrix.cols);
  append(matrix.codes, panel.codes);
  matrix.counts += panel.counts;
  if (repeats) return;
  append(matrix.scales, panel.scales);
  append(matrix.scale_codes, panel.scale_codes);
  append(matrix.zeros, panel.zeros);
}

}  // namespace

bool scale_spans_rows(const Operand& cast, Contract along) {
  return cast.block.kind == Block::Kind::tensor ||
         (cast.block.kind == Block::Kind::row && along == Contract::rows);
}

bool has_scale_codes(const Operand& cast) {
  return cast.scale == ScaleKind::e8m0 || cast.scale == ScaleKind::e4m3;
}

ScaleGrid scale_grid(const Operand& cast, Contract along, int64_t rows, int64_t cols) {
  if (cast.is_unscaled()) return {};
  const bool straight = along == Contract::cols;
  const int64_t all_rows = std::max<int64_t>(rows, 1), all_cols = std::max<int64_t>(cols, 1);
  switch (cast.block.kind) {
    case Block::Kind::tensor:
      return {all_rows, all_cols, 1, 1};
    case Block::Kind::row:
      if (straight) return {1, all_cols, rows, 1};
      return {all_rows, 1, 1, cols};
    default:
      break;
  }
  const int64_t block_rows = straight ? cast.block.rows : cast.block.cols;
  const int64_t block_cols = straight ? cast.block.cols : cast.block.rows;
  return {block_rows, block_cols, ceil_div(rows, block_rows), ceil_div(cols, block_cols)};
}

NarrowMatrix quantize(ConstView source, const Operand& cast, const QuantizeOptions& options,
                      Threads threads) {
  cpu::Workspace workspace(threads);
  NarrowEncoder encoder(workspace, {cast, options, source.rows, source.cols});
  const int64_t step = encoder.panel_rows();
  const auto panel = [&](int64_t row) {
    return source.slice(row, std::min(step, source.rows - row));
  };
  for (int64_t row = 0; encoder.needs_range() && row < source.rows; row += step)
    encoder.note(panel(row));
  NarrowMatrix whole;
  encoder.encode(0, panel(0), whole);
  NarrowMatrix part;
  for (int64_t row = step; row < source.rows; row += step) {
    encoder.encode(row, panel(row), part);
    append(whole, part);
  }
  return whole;
}

void dequantize(const NarrowMatrix& matrix, View values, Threads threads) {
  NG_CHECK(values.rows == matrix.rows && values.cols == matrix.cols, values.rows, values.cols);
  const cpu::CodeDecoder decoder = cpu::code_decoder(*matrix.cast.element);
  const ScaleGrid& grid = matrix.grid;
  parallel_for(threads, matrix.rows, [&](int64_t row, int) {
    cpu::CodedRow coded{.codes = matrix.codes.data() + row * matrix.cols, .cols = matrix.cols};
    if (grid.size() != 0) {
      const int64_t first = grid.at(row, 0);
      coded.block = grid.block_cols;
      coded.scales = matrix.scales.data() + first;
      coded.zeros = matrix.zeros.empty() ? nullptr : matrix.zeros.data() + first;
      coded.tensor_scale = matrix.tensor_scale;
    }
    cpu::dequantize_row(decoder, coded, values.row(row));
  });
}

std::vector<float> dequantize(const NarrowMatrix& matrix, Threads threads) {
  std::vector<float> values(static_cast<size_t>(matrix.rows * matrix.cols));
  dequantize(matrix, {values.data(), matrix.rows, matrix.cols, matrix.cols}, threads);
  return values;
}

}  // namespace ng
