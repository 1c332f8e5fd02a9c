// Vector kernels of the quantizer, one tile at a time. A tile is `rows` operand rows by `cols`
// values along the reduction dimension in the operand's orientation.
#pragma once

#include <cstdint>

#include "backend/cpu/packed.h"
#include "backend/cpu/quantize/values.h"
#include "format/gradient_factor.h"
#include "format/scale.h"
#include "math/philox.h"
#include "tensor/rows.h"

namespace ng::cpu {

/// to[c · to_stride + r] = from[r · from_stride + c] for rows × cols 4-byte words.
void transpose_words(const uint32_t* from, int64_t from_stride, int64_t rows, int64_t cols,
                     uint32_t* to, int64_t to_stride);
/// The same of values, as FP32.
void transpose(const TileValues& from, int64_t rows, int64_t cols, float* to, int64_t to_stride);
/// BF16 as FP32.
void widen_row(const Bf16* from, int64_t count, float* to);

/// Random Hadamard transform of every `size` consecutive values: signs (bit j % 32 of word j / 32),
/// butterflies with strides 1, 2, 4, ..., times `factor`. [formats.md §7]
struct HadamardRule {
  int size = 0;
  const uint32_t* signs = nullptr;
  float factor = 1;
  const float* mean = nullptr;  ///< of every column, taken off before; null: none
};
/// Transforms every row of `to`, whose values come from the same place of `from` (which may be
/// `to`). Columns are a multiple of size.
void hadamard_rows(const TileValues& from, const Rows<float>& to, const HadamardRule& by);
/// Bits of the largest |value| that this makes of rows × cols values.
[[nodiscard]] uint32_t hadamard_amax(const TileValues& from, int64_t rows, int64_t cols,
                                     const HadamardRule& by);

/// amax[(r / rows_per_block) · amax_stride + c / block] = max(itself, bits of |value|): patterns of
/// |x| are ordered like the values with Inf and then NaN on top.
struct AmaxTarget {
  uint32_t* amax = nullptr;
  int64_t stride = 0;
  int64_t rows_per_block = 1;
  int64_t block = 0;
};
void block_amax(const TileValues& values, int64_t rows, int64_t cols, const AmaxTarget& target);

/// Draw groups group + r · group_stride + (0 ... groups - 1) for r < rows.
struct DrawBox {
  uint64_t group = 0;
  uint64_t group_stride = 0;
  int64_t rows = 1;
  int64_t groups = 0;
};
/// 8 draws of 16 bits of each group; row r of the box at draws + r · stride. [recipes.md §0]
void draw_rows(const RandomKey& key, const DrawBox& box, uint16_t* draws, int64_t stride);

/// The same without gaps between rows: row r of the box at draws + r · 8 · groups. Faster for few
/// groups, which are a power of two: {.rows = 128, .groups = 8} are 128 · 64 draws, 16 KiB.
void draw_strip(const RandomKey& key, const DrawBox& box, uint16_t* draws);

/// The eight rounded normal draws of each group as nibbles of a word, magnitude + 4 · sign, which
/// is an index below 8 (math/weight_noise.h has the sign at 8); row r of the box at nibbles + r ·
/// stride.
void draw_nibbles(const RandomKey& key, const DrawBox& box, uint32_t* nibbles, int64_t stride);

/// to[(2w) · stride + i] and to[(2w + 1) · stride + i] = low and high half of from[w · stride + i].
void split_halves(const uint32_t* from, int64_t words, int64_t count, int64_t stride, uint16_t* to);

/// Of blocks whose second scales are those of their regions: TwoLevelScale's parts of each.
struct SecondLevels {
  const float* tensor = nullptr;  ///< null: all blocks have the same
  const float* block = nullptr;

  explicit operator bool() const { return tensor != nullptr; }
};

/// What turns the amax of a block into its scale; the rule `mse` is taken as `floor`.
struct ScaleRequest {
  ScaleKind kind = ScaleKind::none;
  ScaleRule rule = ScaleRule::floor;
  bool integer = false;   ///< fp32 and pow2: scale = amax / fit, a divisor [formats.md §6]
  float max = 0;          ///< largest element
  float fit = 0;          ///< fp32 and pow2: what the block's largest magnitude is scaled to
  float refit = 1;        ///< e4m3: the first fit over the block's
  int emax = 0;           ///< its exponent
  int mantissa_bits = 0;  ///< of the element
  TwoLevelScale two_level;
  SecondLevels own{};  ///< in place of two_level
};

/// From `count` block maxima (bits of |x|): the decode multiplier as stored, and what the encoder
/// multiplies by (integers: divides by). An E4M3 scale of 0 has multiplier 0. E8M0 blocks that are
/// not finite decode by NaN, for E4M3 the maxima must have skipped NaN.
void block_scales(const ScaleRequest& request, const uint32_t* amax, int64_t count, float* decode,
                  float* multiplier);

/// How one element format is rounded by vector arithmetic. Integers are the format whose only
/// binade is that of its largest value.
struct ElementGrid {
  enum class Kind : uint8_t {
    small,    ///< at most 8 bits
    integer,  ///< as small; stochastic rounding is floor(y + R·2^-r) [formats.md §6]
    bf16,
    fp16,
    fp32,  ///< only saturates
  };
  Kind kind = Kind::small;
  int mantissa_bits = 0;
  float lowest_binade = 0;  ///< the spacing is lowest_binade · 2^-mantissa_bits up to twice this
  float max = 0;            ///< of the elements: what is above counts as saturated
  float clip = 0;  ///< magnitudes are cut to this: max, or infinity where BF16 keeps overflow
  bool has_negative_zero = true;
};

/// The second element of a list, by which a block's values are rounded where its scale is negative.
/// [format/element_list.h]
struct OtherGrid {
  ElementGrid grid;  ///< of an integer
  float to = 1;      ///< y · to is rounded to integers
  float back = 1;    ///< elements are -(integer · back)
};

struct EncodeCounts {
  uint64_t saturated = 0;
  uint64_t flushed = 0;
};

/// One tile of finite values on its way to packed elements, saturating.
struct EncodeTile {
  TileValues values;
  int64_t ahead = 0;  ///< values from here on are fetched meanwhile, for the next tile; 0: none
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t counted_cols = 0;            ///< columns from here on are padding: not counted
  int64_t block = 0;                   ///< columns per multiplier; the tile begins at a border
  const float* multipliers = nullptr;  ///< y = x · prescale · multiplier
  const uint32_t* amax = nullptr;      ///< as multipliers: bits of the largest |x|; null: not known
  int64_t multiplier_stride = 0;
  int64_t rows_per_multiplier = 1;
  bool divides = false;  ///< y = x · prescale / multiplier; elements without -0 only
  float prescale = 1.0f;
  const OtherGrid* other = nullptr;  ///< of lists, which have the form fp32; null: one element
  const float* decode = nullptr;     ///< lists: as multipliers, negative where `other` rounds
  const uint16_t* draws = nullptr;   ///< null: nearest even; readable to a multiple of 16 columns.
                                     ///< Draws of 8 bits stand above eight zeros
  int64_t draw_stride = 0;
  ElementForm form = ElementForm::bf16;  ///< int8 and bf16 for small and integer grids
  float unit = 1;                        ///< int8: value of the integer 1
  void* out = nullptr;
  int64_t out_stride = 0;
};
EncodeCounts encode_tile(const ElementGrid& grid, const EncodeTile& tile);
/// The same of a list of elements, a whole multiple of 16 values in every block.
EncodeCounts encode_list(const ElementGrid& grid, const EncodeTile& tile);

/// How far sixteen blocks are from their values under one scale each.
struct BlockTrial {
  /// exact: Σ (x - element · scale)² without a rounding; else by decoded values, which are FP32.
  enum class Error : uint8_t { exact, mse, mae, max };
  Error error = Error::exact;
  const float* values = nullptr;  ///< [count][16]: lanes are blocks, a line one element of all
  int64_t stride = 0;             ///< from line to line
  int64_t count = 0;
  const uint16_t* draws = nullptr;  ///< as the values, of EncodeTile's kind; null: nearest even
  int64_t draw_stride = 0;
  const float* multipliers = nullptr;  ///< [16]: y = x · multiplier
  const float* scales = nullptr;  ///< [16]: decoded is fl(fl(element · scale) · tensor scale)
  const float* tensor_scales = nullptr;  ///< [16]
  bool divides = false;                  ///< y = x / multiplier
  const OtherGrid* other = nullptr;      ///< rounds in place of the grid
};
/// Grids of at most 8 bits.
[[nodiscard]] constexpr bool is_tried(const ElementGrid& grid) {
  return grid.kind == ElementGrid::Kind::small || grid.kind == ElementGrid::Kind::integer;
}
/// Of every block, in FP64 by ascending lines; of `max` NaN is left out. For is_tried() grids.
void block_errors(const ElementGrid& grid, const BlockTrial& trial, double* errors);

/// What was tried for sixteen blocks, and what lost least so far.
struct TriedScales {
  const double* errors = nullptr;
  const float *scales = nullptr, *multipliers = nullptr;
  const int32_t* chooses = nullptr;  ///< -1 where a block takes one of those tried, else 0
};
struct BestScales {
  double* errors = nullptr;  ///< of the first that was tried, whatever was there is not read
  float *scales = nullptr, *multipliers = nullptr;
};
/// Replaces the best where a later one's error is less.
void take_better(const TriedScales& tried, bool is_first, BestScales& best);

/// The next values of sixteen groups, nearest under one scale each.
struct GroupValues {
  const float* values = nullptr;  ///< [count][16]: lanes are groups
  int64_t count = 0;
  float prescale = 1.0f;
  const float* multipliers = nullptr;  ///< [16]: y = x · prescale · multiplier
  const float* scales = nullptr;  ///< [16]: decoded is fl(fl(element · scale) · tensor scale)
  const float* tensor_scales = nullptr;  ///< [16]
};
/// squares[16] += Σ x² and products[16] += Σ x · decoded, in FP64 by ascending lines. For
/// is_tried() grids.
void add_projections(const ElementGrid& grid, const GroupValues& group, double* squares,
                     double* products);

/// to[i] = x[i] · factor_at(by, values[i] · prescale · multiplier) [format/gradient_factor.h]
struct FactorRun {
  TileValues values;  ///< one row
  int64_t count = 0;
  float prescale = 1.0f;
  float multiplier = 1.0f;
  bool divides = false;  ///< values[i] · prescale / multiplier
  const float* x = nullptr;
  float* to = nullptr;
};
void multiply_by_factors(const GradientFactor& by, const FactorRun& run);

/// Sixteen source columns side by side, a row of values for each k.
struct ColumnTile {
  TileValues values;
  const std::byte* next = nullptr;     ///< k / 4 rows that are fetched meanwhile; null: none
  int64_t next_stride = 0;             ///< bytes from one of them to the next
  int64_t next_bytes = 0;              ///< of one that are fetched
  int64_t k = 0;                       ///< multiple of the block
  int64_t counted_k = 0;               ///< from here on is padding: not counted
  int64_t block = 0;                   ///< values along K per scale, a multiple of 16
  const float* multipliers = nullptr;  ///< [k / block][16]
  const uint32_t* amax = nullptr;      ///< [k / block][16]: bits of the largest |x|
  float prescale = 1.0f;
  const uint16_t* draws = nullptr;  ///< [k][16]; null: nearest even
  int64_t draw_stride = 0;
  float unit = 1;         ///< value of the integer 1
  int8_t* out = nullptr;  ///< [k / 4][16][4]
};
EncodeCounts encode_columns(const ElementGrid& grid, const ColumnTile& tile);
/// amax[k / block][16] = bits of the largest |value| of every column's block. Reads values to
/// block.
void column_amax(const ColumnTile& tile, uint32_t* amax);
/// As hadamard_rows along k of [k][16], to without gaps; `by.mean` is of the sixteen columns.
void hadamard_columns(const ColumnTile& tile, const HadamardRule& by, float* to);

/// Counts of |x| by its bits: zero < |x| <= low, high < |x| < Inf, Inf, NaN.
struct MagnitudeCounts {
  uint64_t low = 0;
  uint64_t high = 0;
  uint64_t inf = 0;
  uint64_t nan = 0;
};
MagnitudeCounts count_magnitudes(const TileValues& row, int64_t count, float low, float high);

}  // namespace ng::cpu
