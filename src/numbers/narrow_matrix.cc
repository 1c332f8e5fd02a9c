#include "numbers/narrow_matrix.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "backend/cpu/quantize/dequantize.h"
#include "backend/cpu/workspace.h"
#include "base/huge_pages.h"
#include "numbers/encoder.h"
#include "numbers/narrow_bytes.h"

namespace ng {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

constexpr int64_t kPieceCols = 1 << 16;  // of a row, for one thread

/// `part`, (rows, cols), into its place in a matrix of `stride` columns.
template <class Value>
void place(std::vector<Value>& whole, int64_t stride, int64_t row, int64_t col,
           const std::vector<Value>& part, int64_t cols) {
  for (auto from = part.begin(); from != part.end(); from += cols, ++row)
    std::copy_n(from, cols, whole.begin() + row * stride + col);
}

/// All but the codes.
void place(NarrowMatrix& whole, const Panel& panel, const NarrowMatrix& part) {
  whole.counts += part.counts;
  whole.tensor_scale = part.tensor_scale;
  const ScaleGrid& grid = whole.grid;
  if (grid.size() == 0) return;
  const int64_t row = panel.row / grid.block_rows, col = panel.col / grid.block_cols;
  place(whole.scales, grid.cols, row, col, part.scales, part.grid.cols);
  place(whole.scale_codes, grid.cols, row, col, part.scale_codes, part.grid.cols);
  place(whole.zeros, grid.cols, row, col, part.zeros, part.grid.cols);
}

template <class Code>
void make_room(std::vector<Code>& codes, int64_t count) {
  codes.reserve(static_cast<size_t>(count));
  if (codes.empty()) prefer_huge_pages(codes.data(), static_cast<size_t>(count) * sizeof(Code));
  codes.resize(static_cast<size_t>(count));
}

/// With room for scales, not for codes.
NarrowMatrix empty_matrix(const Operand& cast, const QuantizeOptions& options, int64_t rows,
                          int64_t cols) {
  const int64_t g = std::max(options.hadamard.size, 1);
  const bool straight = options.along == Contract::cols;
  NarrowMatrix out;
  out.cast = cast;
  out.along = options.along;
  out.rows = straight ? rows : ceil_div(rows, g) * g;
  out.cols = straight ? ceil_div(cols, g) * g : cols;
  out.grid = scale_grid(cast, out.along, out.rows, out.cols);
  const auto scales = static_cast<size_t>(out.grid.size());
  out.scales.resize(scales);
  out.scale_codes.resize(has_scale_codes(cast) ? scales : 0);
  out.zeros.resize(is_affine(cast) ? scales : 0);
  return out;
}

}  // namespace

bool scale_spans_rows(const Operand& cast, Contract along) {
  return cast.block.kind == Block::Kind::tensor ||
         (cast.block.kind == Block::Kind::row && along == Contract::rows);
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

double stored_bits_per_value(const Operand& cast, Contract along, int64_t rows, int64_t cols) {
  if (rows == 0 || cols == 0) return 0;
  const int per_scale = scale_bits(cast) + (is_affine(cast) ? 8 : 0);
  const int64_t scales = scale_grid(cast, along, rows, cols).size();
  const double beside =
      static_cast<double>(scales) * per_scale + (cast.tensor_scale == ScaleKind::none ? 0 : 32);
  return cast.element->bits + beside / (static_cast<double>(rows) * static_cast<double>(cols));
}

namespace {

/// The calling thread's, kept between calls: pages that are taken anew cost more than a small cast.
cpu::Workspace& kept_workspace(Threads threads) {
  thread_local std::unique_ptr<cpu::Workspace> kept;
  if (!kept || kept->threads().count != threads.count) {
    kept.reset();
    kept = std::make_unique<cpu::Workspace>(threads);
  }
  return *kept;
}

/// Panel by panel; each(encoder, panel, values, whole, part) encodes one into `part`.
template <class Each>
NarrowMatrix quantize_panels(Rows<const float> source, const Operand& cast,
                             const QuantizeOptions& options, Threads threads, const Each& each) {
  NarrowEncoder encoder(kept_workspace(threads), {cast, options, source.rows, source.cols});
  const std::vector<Panel> panels = encoder.panels();
  const auto values = [&](const Panel& panel) {
    return source.slice(panel.row, panel.rows).columns(panel.col, panel.cols);
  };
  if (encoder.needs_range())
    for (const Panel& panel : panels) encoder.note(panel, values(panel));
  NarrowMatrix whole = empty_matrix(cast, options, source.rows, source.cols);
  NarrowMatrix part;
  for (const Panel& panel : panels) each(encoder, panel, values(panel), whole, part);
  return whole;
}

}  // namespace

NarrowMatrix quantize(Rows<const float> source, const Operand& cast, const QuantizeOptions& options,
                      Threads threads) {
  std::vector<uint16_t> codes;
  NarrowMatrix made =
      quantize_panels(source, cast, options, threads,
                      [&](NarrowEncoder& encoder, const Panel& panel, Rows<const float> values,
                          NarrowMatrix& whole, NarrowMatrix& part) {
                        encoder.encode(panel, values, part);
                        place(whole, panel, part);
                        const int64_t count = whole.rows * whole.cols;
                        if (std::ssize(part.codes) == count) return codes.swap(part.codes);
                        make_room(codes, count);
                        place(codes, whole.cols, panel.row, panel.col, part.codes, part.cols);
                      });
  made.codes = std::move(codes);
  return made;
}

NarrowMatrix quantize_to_bytes(Rows<const float> source, const Operand& cast,
                               const QuantizeOptions& options, Threads threads,
                               std::vector<uint8_t>& codes) {
  NG_CHECK(cast.element->bits <= 8, cast.element->name);
  return quantize_panels(source, cast, options, threads,
                         [&](NarrowEncoder& encoder, const Panel& panel, Rows<const float> values,
                             NarrowMatrix& whole, NarrowMatrix& part) {
                           make_room(codes, whole.rows * whole.cols);
                           encoder.encode(
                               panel, values, part,
                               {codes.data() + panel.row * whole.cols + panel.col, whole.cols});
                           place(whole, panel, part);
                         });
}

namespace {

/// `codes_at(first, count, wide)`: so many codes of the matrix from `first` on, maybe in `wide`.
template <class CodesAt>
void decode(const NarrowMatrix& matrix, const CodesAt& codes_at, Rows<float> values,
            Threads threads) {
  NG_CHECK(values.rows == matrix.rows && values.cols == matrix.cols, values.rows, values.cols);
  const cpu::CodeDecoder decoder = cpu::code_decoder(*matrix.cast.element);
  const ScaleGrid& grid = matrix.grid;
  // Pieces of whole blocks, or within one.
  const int64_t block = std::max<int64_t>(grid.block_cols, 1);
  const int64_t step = block < kPieceCols ? ceil_div(kPieceCols, block) * block : kPieceCols;
  NG_CHECK(block < kPieceCols || block >= matrix.cols, block);
  const int64_t pieces = ceil_div(matrix.cols, step);
  std::vector<std::vector<uint16_t>> wide(static_cast<size_t>(std::max(threads.count, 1)));
  parallel_for(threads, matrix.rows * pieces, [&](int64_t item, int worker) {
    const int64_t row = item / pieces, col = item % pieces * step;
    const int64_t cols = std::min(step, matrix.cols - col);
    cpu::CodedRow coded{
        .codes = codes_at(row * matrix.cols + col, cols, wide[static_cast<size_t>(worker)]),
        .cols = cols};
    if (grid.size() != 0) {
      const int64_t first = grid.at(row, col);
      coded.block = grid.block_cols;
      coded.scales = matrix.scales.data() + first;
      coded.zeros = matrix.zeros.empty() ? nullptr : matrix.zeros.data() + first;
      coded.tensor_scale = matrix.tensor_scale;
    }
    cpu::dequantize_row(decoder, coded, values.row(row) + col);
  });
}

}  // namespace

void dequantize(const NarrowMatrix& matrix, Rows<float> values, Threads threads) {
  decode(
      matrix,
      [&](int64_t first, int64_t, std::vector<uint16_t>&) { return matrix.codes.data() + first; },
      values, threads);
}

void dequantize(const NarrowMatrix& matrix, std::span<const uint8_t> codes, Rows<float> values,
                Threads threads) {
  NG_CHECK(std::ssize(codes) == matrix.rows * matrix.cols, codes.size());
  decode(
      matrix,
      [&](int64_t first, int64_t count, std::vector<uint16_t>& wide) {
        wide.assign(codes.begin() + first, codes.begin() + first + count);
        return wide.data();
      },
      values, threads);
}

std::vector<float> dequantize(const NarrowMatrix& matrix, Threads threads) {
  std::vector<float> values(static_cast<size_t>(matrix.rows * matrix.cols));
  dequantize(matrix, {values.data(), matrix.rows, matrix.cols, matrix.cols}, threads);
  return values;
}

}  // namespace ng
