// Layout of a prepared operand of the cpu backend. `quantize` writes it, the GEMM driver reads it.
//
//   elements  [rows][k_padded]  decoded element values, unscaled, 64-byte aligned, in the first of
//                               these forms that holds all values of the format: int8 multiples of
//                               its smallest magnitude (E2M1, E2M3, INT8, ...; -0 becomes 0), BF16
//                               patterns (all other formats of at most 8 bits, BF16), FP32 (of
//                               lists of elements, too).
//                               Interleaved, int8 lies as [rows / 16][k / 4][16][4], rows padded to
//                               16 with zeros: as integer kernels read them.
//   scales    [rows][blocks]    FP32 decode multipliers of the blocks along K, expanded to every
//                               row (tiles of r rows repeat theirs): 2^(c-127) for E8M0 (c = 255:
//                               NaN), decoded E4M3 for NVFP4, 1/s for FP8 blocks, s for integers,
//                               1 where there is no scale. blocks = 1 for "row" and "tensor".
//   tensor    [16]              FP32; [0]: scale of the whole tensor (NVFP4's s_t, else 1). With a
//                               tensor_block those of all regions, [down][across]; behind them what
//                               block scales follow from, TwoLevelScale::block of each.
//
// For example 100 rows of 96 values in mxfp4, E2M1 in blocks of 32 with E8M0 scales: int8 integers
// -12 ... 12, multiples of 0.5. Interleaved they take 112 · 96 = 10,752 bytes. Bytes 0 ... 63 are
// values 0 ... 3 of rows 0 ... 15, four of each row; the next 64 are values 4 ... 7 of the same
// rows. Row 17's value 33 is byte 1 of word (1 · 24 + 8) · 16 + 1 = 513, that is byte 2,053. Scales
// are 100 · 3 floats from byte 10,752 on, the tensor's scale lies at byte 11,968 (64-byte aligned),
// the whole takes 12,032 bytes.
//
// Nearest FP32, BF16 and FP16 operands without scale, prescale and Hadamard transform have no
// storage: the driver reads the source in place and rounds while it packs its panels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/backend.h"

namespace ng::cpu {

/// a / b, rounded up; a >= 0 and b > 0.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// How elements lie in memory.
enum class ElementForm : uint8_t { int8, bf16, fp32 };

[[nodiscard]] constexpr int bytes_of(ElementForm form) {
  return form == ElementForm::int8 ? 1 : form == ElementForm::bf16 ? 2 : 4;
}

/// Where word w (four values along K) of a row lies among the words of an interleaved operand whose
/// rows have `words`; sixteen rows lie side by side.
[[nodiscard]] constexpr int64_t interleaved_word(int64_t row, int64_t w, int64_t words) {
  return (row / 16 * words + w) * 16 + row % 16;
}

struct PackedLayout {
  int64_t block = 0;   ///< values along K per scale; k_padded for "row" and "tensor"
  int64_t blocks = 0;  ///< scales per row
  ElementForm form = ElementForm::bf16;
  float unit = 1;            ///< int8: value of the integer 1, a power of two
  bool interleaved = false;  ///< int8 whose rows, and blocks, are multiples of four values
  size_t elements_at = 0;    ///< byte offsets into the storage
  size_t scales_at = 0;
  size_t tensor_at = 0;
  size_t factors_at = 0;  ///< with a tensor_block: of TwoLevelScale::block
  size_t bytes = 0;
  int64_t k_padded = 0;

  /// Where the element of an operand row and k lies, in elements.
  [[nodiscard]] int64_t index(int64_t row, int64_t k) const {
    if (!interleaved) return row * k_padded + k;
    return interleaved_word(row, k / 4, k_padded / 4) * 4 + k % 4;
  }
};

/// Value of the integer 1 where int8 multiples of the format's smallest magnitude are all its
/// values ("int form" of formats.md §9); 0 where they are not.
[[nodiscard]] float int8_unit(const ElementFormat& element);

/// The same for int16.
[[nodiscard]] float int16_unit(const ElementFormat& element);

/// The driver reads the values of such an operand from its source.
[[nodiscard]] bool is_read_in_place(const OperandSpec& spec);

/// Sizes and offsets zero where the operand is read in place.
[[nodiscard]] PackedLayout packed_layout(const OperandSpec& spec);

}  // namespace ng::cpu
