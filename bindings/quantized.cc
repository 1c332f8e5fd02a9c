// Matrices to narrow numbers and back.
#include "quantized.h"

#include <nanobind/stl/optional.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "format/codec.h"
#include "format/hadamard.h"
#include "library/access.h"
#include "numbers/by_definition.h"
#include "numbers/narrow_bytes.h"

namespace ng::python {
namespace {

/// How a matrix is rounded beside its format. Draws are those of the program's `cast`.
struct Settings {
  std::string along;
  int hadamard = 0;
  uint64_t seed = 1;
  uint32_t tensor = 0;
};

[[noreturn]] void refuse(const char* key, const std::string& problem, const std::string& remedy) {
  throw Error({.place = "", .key = key, .problem = problem, .remedy = remedy});
}

Contract contract_of(const std::string& along) {
  require_word("along", along, {"cols", "rows"});
  return along == "cols" ? Contract::cols : Contract::rows;
}

QuantizeOptions options_of(const Operand& cast, const Settings& settings) {
  constexpr uint32_t kTensors = 1u << 20;
  if (settings.tensor >= kTensors)
    refuse("tensor", std::to_string(settings.tensor), fmt::format("below {}", kTensors));
  QuantizeOptions options;
  options.along = contract_of(settings.along);
  options.hadamard = hadamard_of(cast, settings.hadamard);
  options.key = {
      .seed = settings.seed, .tensor = settings.tensor, .step = 0, .purpose = Purpose::fprop_input};
  return options;
}

Quantized quantized(Rows<const float> source, const Operand& cast, const QuantizeOptions& options,
                    Threads threads) {
  Quantized made{.matrix = {}, .bytes = {}, .hadamard = options.hadamard};
  made.matrix = cast.element->bits > 8
                    ? ng::quantize(source, cast, options, threads)
                    : quantize_to_bytes(source, cast, options, threads, made.bytes);
  return made;
}

Quantized quantize(const FloatMatrix& x, const narrowgauge::Format& format,
                   const Settings& settings, int64_t threads) {
  const Rows<const float> source = rows_of(x);
  const Operand cast = operand_of(format);
  const QuantizeOptions options = options_of(cast, settings);
  const Threads workers = threads_of(threads);
  const Unlocked unlocked;
  return quantized(source, cast, options, workers);
}

Values dequantize(const Quantized& q, int64_t threads) {
  const Threads workers = threads_of(threads);
  NewArray<float> values({q.rows(), q.cols()});
  {
    const Unlocked unlocked;
    const Rows<float> out{values.data(), q.matrix.rows, q.matrix.cols, q.matrix.cols};
    if (q.is_in_bytes())
      ng::dequantize(q.matrix, q.bytes, out, workers);
    else
      ng::dequantize(q.matrix, out, workers);
  }
  return values.array();
}

/// Decode multipliers of scale codes.
std::vector<float> scales_of(const Operand& cast, const std::vector<uint8_t>& codes) {
  const ElementFormat& element = scale_element(cast);
  std::vector<float> scales;
  scales.reserve(codes.size());
  for (const uint8_t code : codes) {
    if (code >= code_count(element))
      refuse("scale_codes", std::to_string(code), fmt::format("below {}", code_count(element)));
    scales.push_back(decode(element, code));
  }
  return scales;
}

/// Codes and scales that somebody else has made; those of blocks as codes where the format has
/// scale codes, else as multipliers.
struct Parts {
  Vector<uint16_t> codes;
  std::optional<Vector<uint8_t>> scale_codes, zeros;
  std::optional<Vector<float>> scales;
  float tensor_scale = 1;
};

template <class Value>
std::vector<Value> values_of(const std::optional<Vector<Value>>& array) {
  if (!array) return {};
  return {array->data(), array->data() + array->size()};
}

/// Throws narrowgauge::Error where the parts disagree.
Quantized assemble(const narrowgauge::Format& format, int64_t rows, int64_t cols,
                   const std::string& along, const Parts& parts) {
  Quantized made;
  NarrowMatrix& m = made.matrix;
  m.cast = operand_of(format);
  m.along = contract_of(along);
  m.rows = rows;
  m.cols = cols;
  m.grid = scale_grid(m.cast, m.along, rows, cols);
  m.codes = values_of<uint16_t>(parts.codes);
  m.zeros = values_of(parts.zeros);
  m.scale_codes = values_of(parts.scale_codes);
  m.scales = has_scale_codes(m.cast) ? scales_of(m.cast, m.scale_codes) : values_of(parts.scales);
  m.tensor_scale = parts.tensor_scale;
  m.counts.values = m.codes.size();
  narrowgauge::check_parts(made.as_public());
  if (!made.is_in_bytes()) return made;
  made.bytes.assign(m.codes.begin(), m.codes.end());
  m.codes = {};
  return made;
}

nb::object codes_of(nb::handle_t<Quantized> self) {
  const auto& q = nb::cast<const Quantized&>(self);
  if (q.is_in_bytes()) return nb::cast(view_of(q.bytes, {q.rows(), q.cols()}, self));
  return nb::cast(view_of(q.matrix.codes, {q.rows(), q.cols()}, self));
}

/// torch takes no array that it must not write to.
nb::object shared_codes(nb::handle_t<Quantized> self) {
  const auto& q = nb::cast<const Quantized&>(self);
  const size_t shape[] = {q.rows(), q.cols()};
  if (q.is_in_bytes())
    return nb::cast(
        nb::ndarray<nb::numpy, uint8_t>(const_cast<uint8_t*>(q.bytes.data()), 2, shape, self));
  return nb::cast(nb::ndarray<nb::numpy, uint16_t>(const_cast<uint16_t*>(q.matrix.codes.data()), 2,
                                                   shape, self));
}

/// (rows, cols) of blocks; None where there are none.
template <class Value>
nb::object of_blocks(nb::handle_t<Quantized> self, std::vector<Value> NarrowMatrix::*member) {
  const auto& m = nb::cast<const Quantized&>(self).matrix;
  if ((m.*member).empty() && m.grid.size() != 0) return nb::none();
  if (m.cast.is_unscaled()) return nb::none();
  const auto rows = static_cast<size_t>(m.grid.rows), cols = static_cast<size_t>(m.grid.cols);
  return nb::cast(view_of(m.*member, {rows, cols}, self));
}

nb::tuple counts_of(const Quantized& q) {
  const OperandStats& c = q.matrix.counts;
  return nb::make_tuple(c.values, c.saturated, c.flushed, c.nan, c.inf);
}

}  // namespace

std::vector<uint16_t> Quantized::wide_codes() const {
  if (!matrix.codes.empty()) return matrix.codes;
  return {bytes.begin(), bytes.end()};
}

narrowgauge::Quantized Quantized::as_public() const {
  return {
      .format = narrowgauge::format_of(matrix.cast),
      .along = matrix.along == Contract::cols ? narrowgauge::Along::cols : narrowgauge::Along::rows,
      .hadamard = {.size = hadamard.size, .signs = fixed_signs()},
      .rows = matrix.rows,
      .cols = matrix.cols,
      .codes = wide_codes(),
      .block_rows = matrix.grid.block_rows,
      .block_cols = matrix.grid.block_cols,
      .scale_rows = matrix.grid.rows,
      .scale_cols = matrix.grid.cols,
      .scales = matrix.scales,
      .scale_codes = matrix.scale_codes,
      .zeros = matrix.zeros,
      .tensor_scale = matrix.tensor_scale,
      .counts = {}};
}

Hadamard hadamard_of(const Operand& cast, int size) {
  if (size == 0) return {};
  if (!is_hadamard_size(size)) refuse("hadamard", std::to_string(size), "0, 16, 32, 64 or 128");
  if (is_by_definition(cast))
    refuse("hadamard", fmt::format("{} for {} elements", size, cast.element->short_name),
           "signed elements that are no powers of two");
  return {.size = size, .signs = fixed_signs()};
}

Rows<const float> rows_of(const FloatMatrix& x) {
  const auto rows = static_cast<int64_t>(x.shape(0)), cols = static_cast<int64_t>(x.shape(1));
  if (rows * cols == 0) return {x.data(), rows, cols, cols};
  if (cols > 1 && x.stride(1) != 1) refuse("x", "gaps between the values of a row", "no gaps");
  if (rows > 1 && x.stride(0) < cols) refuse("x", "rows that overlap", "rows apart");
  return {x.data(), rows, cols, rows > 1 ? x.stride(0) : cols};
}

void add_quantized(nb::module_& module) {
  nb::class_<Quantized>(module, "Quantized", "Codes and scales of a matrix.")
      .def_prop_ro("format",
                   [](const Quantized& q) { return narrowgauge::format_of(q.matrix.cast); })
      .def_prop_ro(
          "along",
          [](const Quantized& q) { return q.matrix.along == Contract::cols ? "cols" : "rows"; })
      .def_prop_ro("hadamard", [](const Quantized& q) { return q.hadamard.size; })
      .def_prop_ro("codes", codes_of)
      .def("shared_codes", shared_codes, "The same memory, for who takes none that is read-only.")
      .def_prop_ro("scales",
                   [](nb::handle_t<Quantized> q) { return of_blocks(q, &NarrowMatrix::scales); })
      .def_prop_ro(
          "scale_codes",
          [](nb::handle_t<Quantized> q) { return of_blocks(q, &NarrowMatrix::scale_codes); })
      .def_prop_ro("zeros",
                   [](nb::handle_t<Quantized> q) { return of_blocks(q, &NarrowMatrix::zeros); })
      .def_prop_ro("tensor_scale", [](const Quantized& q) { return q.matrix.tensor_scale; })
      .def_prop_ro("counts", counts_of);
  module.def(
      "quantize",
      [](const FloatMatrix& x, const narrowgauge::Format& format, const std::string& along,
         int hadamard, uint64_t seed, uint32_t tensor, int64_t threads) {
        return quantize(x, format, {along, hadamard, seed, tensor}, threads);
      },
      "x"_a.noconvert(), "format"_a, "along"_a, "hadamard"_a, "seed"_a, "tensor"_a, "threads"_a);
  module.def("dequantize", dequantize, "q"_a, "threads"_a);
  module.def(
      "assemble",
      [](const narrowgauge::Format& format, int64_t rows, int64_t cols, const std::string& along,
         const Vector<uint16_t>& codes, const std::optional<Vector<uint8_t>>& scale_codes,
         const std::optional<Vector<float>>& scales, const std::optional<Vector<uint8_t>>& zeros,
         float tensor_scale) {
        return assemble(format, rows, cols, along,
                        {codes, scale_codes, zeros, scales, tensor_scale});
      },
      "format"_a, "rows"_a, "cols"_a, "along"_a, "codes"_a, "scale_codes"_a.none(),
      "scales"_a.none(), "zeros"_a.none(), "tensor_scale"_a);
}

}  // namespace ng::python
