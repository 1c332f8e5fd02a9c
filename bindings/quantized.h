// A matrix of narrow numbers as Python holds it.
#pragma once

#include <narrowgauge/quantize.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "bind.h"
#include "numbers/measured_product.h"
#include "numbers/narrow_matrix.h"

namespace ng::python {

/// Never changed once it is made, so that its codes are always codes of its element.
struct Quantized {
  NarrowMatrix matrix;         ///< its codes are empty where `bytes` has them
  std::vector<uint8_t> bytes;  ///< codes of at most 8 bits, one each
  Hadamard hadamard;

  [[nodiscard]] bool is_in_bytes() const { return matrix.cast.element->bits <= 8; }
  [[nodiscard]] size_t rows() const { return static_cast<size_t>(matrix.rows); }
  [[nodiscard]] size_t cols() const { return static_cast<size_t>(matrix.cols); }
  /// Codes in their order, one a value.
  [[nodiscard]] std::vector<uint16_t> wide_codes() const;
  /// The C++ library's.
  [[nodiscard]] narrowgauge::Quantized as_public() const;
};

/// The matrix in the caller's memory. Throws Error where its rows have gaps.
[[nodiscard]] Rows<const float> rows_of(const FloatMatrix& x);

/// Of so many values, with TransformerEngine's signs. Throws Error for a size that there is not,
/// and where the elements cannot be transformed.
[[nodiscard]] Hadamard hadamard_of(const Operand& cast, int size);

/// A format's words, or the format.
using Factor = std::variant<std::string, narrowgauge::Format>;
/// Of matmul's keyword `key`; `rounding`: "" as the words say.
[[nodiscard]] Operand factor_of(const char* key, const Factor& format, const std::string& rounding);
/// "chain" or "tile32", of operands that can be summed so.
void set_sum(ProductJob& job, const std::string& word);
/// Throws Error where the matrices have no product.
void require_product_shapes(const ProductJob& job);

}  // namespace ng::python
