// Panels: operands rearranged for the microkernels, as FP32, pairs of BF16 or of int16, or words of
// int8.
//
// A panel holds `width` rows of an operand side by side, so that one vector load gives the same k
// of many rows. Its elements are 4 bytes each, whatever they hold: 1 (FP32), 2 (pairs) or 4 (words)
// values along K. Row i's values from k on lie in element [k / values][i], which is element number
// k / values · width + i. A right panel of AVX-512 is 48 rows of B wide, a left one 8 rows of A:
//
//   k = 768     elements of a right panel        bytes   first vector of 16 lanes
//   FP32        [768][48]                      147,456   rows 0 ... 15 at k = 0
//   BF16 pairs  [384][48]                       73,728   the same at k = 0 (high half) and 1
//   words       [192][48]                       36,864   the same at k = 0 (lowest byte), 1, 2, 3
//
// Scales lie likewise, [segments][width]: of mxfp4, 24 segments of 32 values, 4,608 bytes of FP32.
#pragma once

#include "backend/cpu/gemm/rule.h"

namespace ng::cpu {

/// What multiplies the elements of panels: FP32 units, dot products of pairs of BF16 or of int16,
/// or of words of int8 values.
enum class Units : uint8_t { fp32, bf16, int16, int8 };

/// Where and in which form the values of an operand lie.
struct PanelSource {
  enum class Values : uint8_t { fp32, to_bf16, to_fp16, bf16_bits, int8 };
  Values values = Values::fp32;  ///< to_*: rounded on the way
  bool from_bf16 = false;        ///< to_*: BF16 in memory instead of FP32
  bool saturate = true;          ///< to_*: overflow and infinities become the largest value
  float unit = 1;                ///< of values as integers: the value of 1
  bool interleaved = false;      ///< int8: sixteen rows side by side (packed.h)
  Units units = Units::fp32;   ///< decides what a panel's element is: FP32; bf16, int16: two values
                               ///< along K, the first in the high or the low half; int8: four
  int64_t short_words = 0;     ///< words: SegmentRun::words of short dots (isa/microkernel.h)
  bool biased = true;          ///< words: b's values have 128 added, which a's panels undo
  bool ends_negative = false;  ///< pairs of BF16: beyond an odd count stands -0 instead of +0
  bool transposed = false;     ///< memory is [k][row] instead of [row][k]
  const void* data = nullptr;
  int64_t stride = 0;  ///< in values
  int64_t rows = 0;
  int64_t k = 0;  ///< values along K in memory; above: +0
  ScaleUse use = ScaleUse::none;
  bool power_of_two = false;      ///< scales are E8M0
  bool looks_up = false;          ///< scales are E4M3 whose products are looked up
  bool shares_scales = false;     ///< aligned sixteens of rows have one scale
  const float* scales = nullptr;  ///< [rows][blocks]
  int64_t blocks = 0;
  int64_t block = 1;                     ///< values along K per scale
  int64_t segment = 32;                  ///< of the rule
  const float* region_scales = nullptr;  ///< [down][regions]: multiplied into scales; null: 1
  int64_t region_rows = 1, region_cols = 1, regions = 1;
  float scale_unit = 1;                 ///< multiplied into the scales of panels; a power of two
  const float* row_scale = nullptr;     ///< [rows], factor at the end; null: 1
  const float* tensor_scale = nullptr;  ///< [1], factor at the end; null: 1

  /// Of such a source, packing reads +0 beyond its k by itself.
  [[nodiscard]] bool is_read_in_place() const { return scales == nullptr; }
  [[nodiscard]] bool has_end_scale() const {
    return row_scale != nullptr || tensor_scale != nullptr;
  }
  [[nodiscard]] float end_scale(int64_t row) const {
    const float of_row = row_scale != nullptr ? row_scale[row] : 1.0f;
    return tensor_scale != nullptr ? of_row * *tensor_scale : of_row;
  }
};

[[nodiscard]] PanelSource panel_source(const PackedOperand& packed, ScaleUse use, int64_t segment);

/// Operand rows [row, row + width) and k [k, k + count).
struct PanelPlace {
  int64_t row = 0;
  int width = 0;
  int64_t k = 0;
  int64_t count = 0;
};

/// One packed panel of `width` rows, k-major. Rows outside the operand are zeros with scale 1.
struct Panel {
  float* elements = nullptr;  ///< [count][width]; pairs, words: [count / 2 or 4][width], bits of
                              ///< uint32_t
  float* scales = nullptr;    ///< [segments][width], where the rule keeps scales
  int32_t* plain = nullptr;   ///< [segments]: how many from this one on are plain: FP32 arithmetic
                              ///< on their scales is exact, or their products can be looked up.
                              ///< Sum::groups: also every row's four blocks share the scale of the
                              ///< first. Sum::scaled_fma: not read
  float* shifts = nullptr;    ///< scratch for packing: one factor per row and block
  uint32_t* smallest = nullptr;  ///< [1], Job::may_flush: bits of the smallest magnitude but 0 of
                                 ///< the panel's BF16 values
  int32_t* starts = nullptr;  ///< a's words: [sums][width], -128 · sum of the integers; short dots:
                              ///< of those at 0, 1 and those at 2, 3 of words, pairs of int16
  int32_t* group_starts = nullptr;  ///< Sum::groups: the same of a group, at its first segment; not
                                    ///< by short dots
  uint32_t* factors = nullptr;      ///< Sum::groups by short dots, b's: the shifts 1, 2, 4 or 8 of
                                    ///< segments as pairs of int16, [segments][width]; elements are
                                    ///< not shifted
};

/// Elements of `count` panels side by side, `stride` values apart.
struct PanelRun {
  float* elements = nullptr;
  int64_t count = 1;
  int64_t stride = 0;
};

/// Values of the scratch `shifts` for panels of `count` along K.
[[nodiscard]] int64_t shift_values(const PanelSource& source, int width, int64_t count);

void pack_panel(const PanelSource& source, const PanelPlace& place, const Panel& panel);

/// The panels of rows place.row + i · place.width of a transposed source (it has no scales).
void pack_transposed(const PanelSource& source, const PanelPlace& place, const PanelRun& run);

}  // namespace ng::cpu
