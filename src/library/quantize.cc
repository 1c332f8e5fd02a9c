#include <narrowgauge/quantize.h>

#include <algorithm>
#include <utility>

#include "format/codec.h"
#include "format/hadamard.h"
#include "library/access.h"
#include "numbers/by_definition.h"
#include "numbers/errors.h"
#include "numbers/unpack.h"

namespace narrowgauge {
namespace {

constexpr int64_t kMostValues = int64_t{1} << 48;
constexpr int kMostThreads = 1024;

void check_shape(int64_t rows, int64_t cols) {
  require(rows >= 0 && cols >= 0 && (rows == 0 || cols <= kMostValues / rows),
          fmt::format("a matrix of {} x {}", rows, cols), "sizes from 0, at most 2^48 values");
}

template <class View>
void check_view(const View& view) {
  check_shape(view.rows, view.cols);
  if (view.rows == 0 || view.cols == 0) return;
  require(view.data != nullptr, "a matrix without data", "a pointer to its values");
  require(view.rows == 1 || view.stride >= view.cols,
          fmt::format("stride {} of rows of {} values", view.stride, view.cols),
          "at least a row, in values");
}

ng::Rows<const float> view_of(const MatrixView& view) {
  check_view(view);
  return {view.data, view.rows, view.cols, view.stride};
}

ng::Contract contract_of(Along along) {
  return along == Along::cols ? ng::Contract::cols : ng::Contract::rows;
}

/// `k`: values along the dimension that is transformed.
void check_hadamard(const Hadamard& hadamard, const Format& format, int64_t k) {
  if (hadamard.size == 0) return;
  require(ng::is_hadamard_size(hadamard.size),
          fmt::format("a Hadamard transform of {} values", hadamard.size),
          "0 (none), 16, 32, 64 or 128");
  require(!ng::is_by_definition(operand_of(format)),
          fmt::format("a Hadamard transform of {} elements", format.element.short_name()),
          "signed elements that are no powers of two");
  require(k % hadamard.size == 0, fmt::format("{} values in transforms of {}", k, hadamard.size),
          "a multiple");
}

}  // namespace

ng::Threads threads_of(int count) {
  require(count >= 1 && count <= kMostThreads, fmt::format("{} threads", count),
          fmt::format("1 to {}", kMostThreads));
  return {count};
}

ng::ScaleGrid grid_of(const Quantized& matrix) {
  return {matrix.block_rows, matrix.block_cols, matrix.scale_rows, matrix.scale_cols};
}

ng::Hadamard hadamard_of(const Hadamard& hadamard) {
  return {.size = hadamard.size, .signs = hadamard.signs};
}

ng::NarrowMatrix narrow_matrix_of(const Quantized& matrix) {
  ng::NarrowMatrix out;
  out.cast = operand_of(matrix.format);
  out.along = contract_of(matrix.along);
  out.rows = matrix.rows;
  out.cols = matrix.cols;
  out.codes = matrix.codes;
  out.grid = grid_of(matrix);
  out.scales = matrix.scales;
  out.zeros = matrix.zeros;
  out.tensor_scale = matrix.tensor_scale;
  return out;
}

void check_scale(ScaleKind kind, float scale) {
  const bool is_power = kind == ScaleKind::e8m0;
  require(ng::is_scale(kind, scale), fmt::format("scale {}", scale),
          is_power ? "a power of two from 2^-127 to 2^127, or NaN"
                   : "a value of e4m3 from 0 on, or NaN");
}

namespace {

void check_scales(const Quantized& matrix) {
  const auto kind = matrix.format.scale;
  for (size_t i = 0; i < matrix.scales.size(); ++i) {
    check_scale(matrix.format.scale, matrix.scales[i]);
    if (matrix.scale_codes.empty()) continue;
    const uint8_t code = ng::scale_code(kind, matrix.scales[i]);
    require(matrix.scale_codes[i] == code,
            fmt::format("scale code {} beside scale {}", matrix.scale_codes[i], matrix.scales[i]),
            fmt::format("{}", code));
  }
}

}  // namespace

void check_parts(const Quantized& matrix) {
  check(matrix.format);
  check_shape(matrix.rows, matrix.cols);
  check_hadamard(matrix.hadamard, matrix.format,
                 matrix.along == Along::cols ? matrix.cols : matrix.rows);
  const ng::Operand cast = operand_of(matrix.format);
  const ng::ScaleGrid grid =
      ng::scale_grid(cast, contract_of(matrix.along), matrix.rows, matrix.cols);
  const bool agrees = grid.block_rows == matrix.block_rows &&
                      grid.block_cols == matrix.block_cols && grid.rows == matrix.scale_rows &&
                      grid.cols == matrix.scale_cols;
  require(agrees,
          fmt::format("{} x {} scales of {} x {} values", matrix.scale_rows, matrix.scale_cols,
                      matrix.block_rows, matrix.block_cols),
          fmt::format("{} x {} of {} x {} in {}", grid.rows, grid.cols, grid.block_rows,
                      grid.block_cols, ng::describe(cast)));
  const auto check_size = [](const char* what, size_t size, int64_t expected) {
    require(size == static_cast<size_t>(expected), fmt::format("{} {}", size, what),
            fmt::format("{}", expected));
  };
  check_size("codes", matrix.codes.size(), matrix.rows * matrix.cols);
  check_size("scales", matrix.scales.size(), grid.size());
  check_size("scale codes", matrix.scale_codes.size(), ng::has_scale_codes(cast) ? grid.size() : 0);
  check_scales(matrix);
  check_size("zero points", matrix.zeros.size(), ng::is_affine(cast) ? grid.size() : 0);
  if (matrix.codes.empty()) return;
  const uint16_t largest = *std::max_element(matrix.codes.begin(), matrix.codes.end());
  require(largest < ng::code_count(*cast.element),
          fmt::format("code {} of {}", largest, cast.element->short_name),
          fmt::format("below {}", ng::code_count(*cast.element)));
}

Quantized quantize(const MatrixView& source, const Format& format, const QuantizeOptions& options) {
  check(format);
  const ng::Rows<const float> view = view_of(source);
  require(options.tensor < 1u << 20, fmt::format("tensor {}", options.tensor), "below 2^20");
  check_hadamard(options.hadamard, format, 0);  // the matrix is padded
  const ng::Threads threads = threads_of(options.threads);
  ng::QuantizeOptions settings;
  settings.along = contract_of(options.along);
  settings.hadamard = hadamard_of(options.hadamard);
  settings.key = {.seed = options.seed, .tensor = options.tensor};
  return translated([&] {
    ng::NarrowMatrix made = ng::quantize(view, operand_of(format), settings, threads);
    const ng::OperandStats& counts = made.counts;
    return Quantized{
        .format = format,
        .along = options.along,
        .hadamard = options.hadamard.size == 0 ? Hadamard{} : options.hadamard,
        .rows = made.rows,
        .cols = made.cols,
        .codes = std::move(made.codes),
        .block_rows = made.grid.block_rows,
        .block_cols = made.grid.block_cols,
        .scale_rows = made.grid.rows,
        .scale_cols = made.grid.cols,
        .scales = std::move(made.scales),
        .scale_codes = std::move(made.scale_codes),
        .zeros = std::move(made.zeros),
        .tensor_scale = made.tensor_scale,
        .counts = {counts.values, counts.saturated, counts.flushed, counts.nan, counts.inf}};
  });
}

void dequantize(const Quantized& matrix, const MutableMatrixView& values, int threads) {
  check_parts(matrix);
  check_view(values);
  require(values.rows == matrix.rows && values.cols == matrix.cols,
          fmt::format("room for {} x {} values", values.rows, values.cols),
          fmt::format("{} x {}", matrix.rows, matrix.cols));
  ng::dequantize(narrow_matrix_of(matrix), {values.data, values.rows, values.cols, values.stride},
                 threads_of(threads));
}

std::vector<float> dequantize(const Quantized& matrix, int threads) {
  check_parts(matrix);
  return ng::dequantize(narrow_matrix_of(matrix), threads_of(threads));
}

ErrorMetrics error_metrics(const MatrixView& x, const MatrixView& q, int threads) {
  require(x.rows == q.rows && x.cols == q.cols,
          fmt::format("matrices of {} x {} and {} x {}", x.rows, x.cols, q.rows, q.cols),
          "one shape");
  const ng::ErrorMetrics e = ng::error_sums(view_of(x), view_of(q), threads_of(threads)).metrics();
  return {.values = e.values,
          .mse = e.mse,
          .relative_mse = e.relative_mse,
          .sqnr_db = e.sqnr_db,
          .max_abs = e.max_abs,
          .max_relative = e.max_relative,
          .underflow = e.underflow,
          .bias = e.bias};
}

}  // namespace narrowgauge
