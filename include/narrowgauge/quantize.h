// Whole matrices to narrow numbers and back, and how far that is from the source. Rounding is
// defined to the bit: results depend neither on threads nor on the CPU.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "narrowgauge/export.h"
#include "narrowgauge/formats.h"

namespace narrowgauge {

/// A matrix in the caller's memory: row r begins at data + r · stride values.
struct MatrixView {
  const float* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;  ///< in values; at least cols where there are several rows
};
struct MutableMatrixView {
  float* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;
};

/// The dimension that a product will sum over, along which blocks lie.
enum class Along : uint8_t { cols, rows };

/// Random Hadamard transform: blocks of `size` values x along the dimension of a product become
/// c · H · (σ∘x) before their scales are chosen, c = 1/4 for 16 and 32, 1/8 for 64 and 128. A
/// product of two matrices with the same transform undoes it.
struct Hadamard {
  int size = 0;  ///< 0 (none), 16, 32, 64 or 128
  /// σ_j is -1 where bit j % 32 of word j / 32 is set. These are TransformerEngine's.
  std::array<uint32_t, 4> signs = {0xD7E8D7E8, 0xD7E8D7E8, 0xD7E8D7E8, 0xD7E8D7E8};
  friend bool operator==(const Hadamard&, const Hadamard&) = default;
};

struct QuantizeOptions {
  Along along = Along::cols;
  Hadamard hadamard = {};  ///< not for unsigned elements and powers of two
  /// Stochastic draws are a pure function of (seed, tensor, place in the matrix): the two operands
  /// of a product must differ in one of the first two. [Philox4x32-10, Salmon et al., SC'11]
  uint64_t seed = 0;
  uint32_t tensor = 0;  ///< below 2^20
  int threads = 1;
};

/// What happened to the values of the source.
struct Counts {
  uint64_t values = 0;
  uint64_t saturated = 0;  ///< |x| / scale above the largest element, before rounding
  uint64_t flushed = 0;    ///< x != 0 that became 0
  uint64_t nan = 0;
  uint64_t inf = 0;
};

/// A matrix as codes and scales. Element (r, c) is codes[r · cols + c]; its scale is
/// scales[(r / block_rows) · scale_cols + c / block_cols], and
/// value = fl32(fl32(decode(code) · scale) · tensor_scale); unsigned integers: (code - zero) ·
/// scale. A format without scales has none, and scale_rows = scale_cols = 0.
struct Quantized {
  Format format;
  Along along = Along::cols;
  Hadamard hadamard = {};  ///< the codes are those of transformed values
  int64_t rows = 0;        ///< those of the source; with a transform a multiple of its size
  int64_t cols = 0;        ///< along the dimension of a product, the rest transformed zeros
  std::vector<uint16_t> codes;
  int64_t block_rows = 1;  ///< along the matrix as stored
  int64_t block_cols = 1;
  int64_t scale_rows = 0;
  int64_t scale_cols = 0;
  std::vector<float> scales;         ///< decode multipliers; NaN: a block that was not finite
  std::vector<uint8_t> scale_codes;  ///< the same as E8M0 or E4M3 codes; else empty
  std::vector<uint8_t> zeros;        ///< unsigned integers: zero point beside each scale
  float tensor_scale = 1;            ///< second level of NVFP4
  Counts counts;
};

/// `source` in the numbers of `format`. Blocks at the edges are padded with zeros that are not part
/// of the result. A block of E8M0 scale with NaN or Inf in it becomes NaN as a whole and is
/// counted. Throws Error for a format that check() refuses and for impossible views; empty ones are
/// fine.
[[nodiscard]] NARROWGAUGE_API Quantized quantize(const MatrixView& source, const Format& format,
                                                 const QuantizeOptions& options = {});

/// Its values; neither prescale nor transform is undone. Throws Error where the parts of `matrix`
/// disagree or `values` has another shape.
NARROWGAUGE_API void dequantize(const Quantized& matrix, const MutableMatrixView& values,
                                int threads = 1);
/// The same, rows · cols values row by row.
[[nodiscard]] NARROWGAUGE_API std::vector<float> dequantize(const Quantized& matrix,
                                                            int threads = 1);

/// e = q - x over the finite x, summed in FP64.
struct ErrorMetrics {
  uint64_t values = 0;      ///< finite x
  double mse = 0;           ///< Σe² / N
  double relative_mse = 0;  ///< Σe² / Σx²; NaN where Σx² is 0
  double sqnr_db = 0;       ///< -10·log10(relative_mse), dB; +Inf without error
  double max_abs = 0;       ///< max |e|
  double max_relative = 0;  ///< max |e/x| over x != 0
  double underflow = 0;     ///< share of x != 0 with q = 0
  double bias = 0;          ///< mean(e) / mean|x|; NaN where Σ|x| is 0
};

/// Of `q` as numbers for `x`, two matrices of one shape. Throws Error where the shapes differ.
[[nodiscard]] NARROWGAUGE_API ErrorMetrics error_metrics(const MatrixView& x, const MatrixView& q,
                                                         int threads = 1);

}  // namespace narrowgauge
