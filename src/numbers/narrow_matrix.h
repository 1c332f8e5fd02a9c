// A whole matrix as narrow numbers: codes, scales and what happened to its values. Made by the cpu
// backend, bit for bit as backend/ref/operand.h defines it; elements that no GEMM takes (unsigned,
// affine, powers of two) by the scalar definition of format/.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"

namespace ng {

/// Extents of the values that share a scale, along the matrix as it is stored, and how many such
/// blocks there are; 0 × 0 where the cast has no scales.
struct ScaleGrid {
  int64_t block_rows = 1;
  int64_t block_cols = 1;
  int64_t rows = 0;
  int64_t cols = 0;

  [[nodiscard]] int64_t size() const { return rows * cols; }
  /// Index of the scale of an element.
  [[nodiscard]] int64_t at(int64_t row, int64_t col) const {
    return row / block_rows * cols + col / block_cols;
  }
};

struct NarrowMatrix {
  Operand cast;
  Contract along = Contract::cols;  ///< blocks lie along the columns, or along the rows
  int64_t rows = 0;                 ///< as the source, padded to the Hadamard size along `along`
  int64_t cols = 0;
  std::vector<uint16_t> codes;  ///< [rows][cols], element codes of at most 16 bits
  ScaleGrid grid;
  std::vector<float> scales;         ///< [grid.rows][grid.cols], decode multipliers; NaN: E8M0 0xFF
  std::vector<uint8_t> scale_codes;  ///< the same as stored; empty unless scales are E8M0 or E4M3
  std::vector<uint8_t> zeros;        ///< affine integers: zero point beside each scale
  float tensor_scale = 1;            ///< second level of NVFP4
  OperandStats counts;               ///< [formats.md §2.2], over the values of the source
};

/// Unsigned integers with a scale: value = (code - zero) · scale. [formats.md §6]
[[nodiscard]] bool is_affine(const Operand& cast);

/// Whether a block has all rows of the matrix.
[[nodiscard]] bool scale_spans_rows(const Operand& cast, Contract along);

/// The blocks of a matrix of rows × cols.
[[nodiscard]] ScaleGrid scale_grid(const Operand& cast, Contract along, int64_t rows, int64_t cols);

/// Bits that a matrix takes per value: elements and all that decodes them (scales, zero points, the
/// scale of the tensor). 0 for an empty one.
[[nodiscard]] double stored_bits_per_value(const Operand& cast, Contract along, int64_t rows,
                                           int64_t cols);

/// Everything that fixes the bits but the values.
struct QuantizeOptions {
  /// cols: blocks along the columns. rows: along the rows, as a GEMM contracting rows reads it;
  /// a block of r × c values then covers c rows and r columns of the matrix.
  Contract along = Contract::cols;
  RandomKey key;           ///< of stochastic rounding: draws belong to places in the matrix
  Hadamard hadamard = {};  ///< transform along the blocks before rounding
  /// About as many are worked on at a time; the bits do not depend on it.
  int64_t panel_values = int64_t{1} << 22;
  /// So many rows, from multiples of it on, are in the same panels where they fit: for a reader
  /// that has them side by side. The bits do not depend on it either.
  int64_t rows_together = 1;
};

/// `source` in the numbers of `cast` (current scaling, an element of at most 16 bits). Works
/// through the matrix in panels; takes no more memory than the result and a few MiB,
/// except with a Hadamard transform.
[[nodiscard]] NarrowMatrix quantize(Rows<const float> source, const Operand& cast,
                                    const QuantizeOptions& options, Threads threads);

/// values (rows, cols): fl32(decode(code) · scale), then fl32(· tensor scale). Neither prescale nor
/// transform is undone.
void dequantize(const NarrowMatrix& matrix, Rows<float> values, Threads threads);
[[nodiscard]] std::vector<float> dequantize(const NarrowMatrix& matrix, Threads threads);
/// The same of codes of at most 8 bits that lie elsewhere, one a byte.
void dequantize(const NarrowMatrix& matrix, std::span<const uint8_t> codes, Rows<float> values,
                Threads threads);

}  // namespace ng
