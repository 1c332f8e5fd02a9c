// A matrix product as cuBLASLt takes it, and what it refuses: matrices lie by columns,
// D (m, n) = op(A) (m, k) · op(B) (k, n), with one leading dimension each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "backend/cuda/card.h"
#include "format/table.h"

namespace ng::cuda {

enum class MatmulType : uint8_t { fp32, bf16, e4m3, e5m2, e2m1, int8, int32 };
[[nodiscard]] std::string_view name_of(MatmulType type);
[[nodiscard]] int64_t bits_of(MatmulType type);
[[nodiscard]] constexpr bool is_fp8(MatmulType type) {
  return type == MatmulType::e4m3 || type == MatmulType::e5m2;
}
/// Of FP4 and FP8.
[[nodiscard]] const ElementFormat& element_of(MatmulType type);

/// CUBLASLT_MATMUL_MATRIX_SCALE_...
enum class MatmulScale : uint8_t {
  none,
  tensor,       ///< SCALAR_32F
  outer,        ///< OUTER_VEC_32F: one for each row of op(A) or column of op(B)
  vec16_ue4m3,  ///< of NVFP4
  vec32_ue8m0,  ///< of MXFP8
  vec128,       ///< VEC128_32F
  block128,     ///< BLK128x128_32F
};
[[nodiscard]] std::string_view name_of(MatmulScale scale);

/// A or B, in the card's memory.
struct MatmulOperand {
  MatmulType type = MatmulType::bf16;
  bool transposed = false;
  int64_t leading = 0;  ///< elements from one column to the next
  const void* data = nullptr;
  MatmulScale scale = MatmulScale::none;
  const void* scales = nullptr;
};

struct Matmul {
  int64_t m = 0, n = 0, k = 0;
  MatmulOperand a{}, b{};
  MatmulType d_type = MatmulType::fp32;
  int64_t d_leading = 0;
  void* d = nullptr;
  bool add = false;  ///< D += instead of D =
  float alpha = 1;   ///< of the product; INT32 has none
};

/// Rows and K that operands held for the library are filled up to multiples of, with zeros: it
/// takes lines of 16 bytes only, but of BF16.
[[nodiscard]] constexpr int64_t held_multiple(MatmulType type) {
  return type == MatmulType::bf16 ? 1 : type == MatmulType::e2m1 ? 32 : 16;
}
[[nodiscard]] constexpr int64_t filled_up(int64_t count, MatmulType type) {
  const int64_t multiple = held_multiple(type);
  return (count + multiple - 1) / multiple * multiple;
}

/// Where VEC16_UE4M3 and VEC32_UE8M0 have the scale of block `block` of `blocks` along K of a row:
/// tiles of 128 rows by 4 blocks, along K first. [cuBLAS 13.0, "1D Block Scaling Factors Layout"]
[[nodiscard]] constexpr int64_t block_scale_at(int64_t row, int64_t block, int64_t blocks) {
  const int64_t tile = row / 128 * ((blocks + 3) / 4) + block / 4;
  return tile * 512 + row % 32 * 16 + row % 128 / 32 * 4 + block % 4;
}
/// Bytes of them.
[[nodiscard]] constexpr int64_t block_scale_bytes(int64_t rows, int64_t blocks) {
  return (rows + 127) / 128 * ((blocks + 3) / 4) * 512;
}

/// FP32 scales: where VEC128 has that of block `block` along K of a row of `rows`, and BLK128x128
/// that of a row's square, of `blocks` along K, whose lines begin at multiples of four.
[[nodiscard]] constexpr int64_t vec128_scale_at(int64_t row, int64_t block, int64_t rows) {
  return block * rows + row;
}
[[nodiscard]] constexpr int64_t block128_scale_at(int64_t row, int64_t block, int64_t blocks) {
  return row / 128 * ((blocks + 3) / 4 * 4) + block;
}

/// Why the library of a card refuses a product, by its documentation and gpu.md §3; empty: it does
/// not. [cuBLAS 13.0, "cublasLtMatmul()", "Narrow precision data types usage"]
[[nodiscard]] std::string matmul_refusal(const Card& card, const Matmul& product);

}  // namespace ng::cuda
