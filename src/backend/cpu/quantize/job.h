// One call of `prepare`: its constants and how its work is cut.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "backend/backend.h"
#include "backend/cpu/packed.h"
#include "backend/cpu/quantize/kernels.h"
#include "backend/cpu/quantize/source.h"
#include "format/element_list.h"

namespace ng::cpu {

/// How an operand is cut. A panel, or what a tile of the source becomes, is the item of a thread; a
/// panel is walked in chunks along K, whole blocks each; a chunk is loaded in pieces that fit the
/// cache. Borders depend on the shape only.
///
/// x (2048, 3072) in mxfp4 along its rows: panels of 16 rows, as they are interleaved, 128 of them;
/// three chunks of 1,024 values along K, each one piece of 16 · 1,024 values (64 KiB of FP32) with
/// 16 · 32 scales. In fp8_e4m3 with one scale: 512 panels of 4 rows, one chunk of 4 · 3,072 values.
/// A block of 128 x 128 makes panels of 128 rows, and pieces of 128 · 128 values.
struct QuantizePlan {
  int64_t panel_rows = 0;  ///< multiple of the tile rows; turned or interleaved: of 16 too
  int64_t chunk_cols = 0;
  int64_t piece_rows = 0;  ///< either panel_rows or a part of one tile row
  int64_t piece_cols = 0;
  int64_t tile_rows = 1;   ///< operand rows that share a scale
  int64_t block_cols = 0;  ///< values along K that share a scale, within a chunk
};

/// Values of a block whose scales are tried by the vector kernel.
constexpr int64_t kTriedValues = 1024;

/// Where a panel's work lies in a worker's scratch.
struct QuantizeScratch {
  float* values = nullptr;
  int8_t* codes = nullptr;  ///< of a piece, [rows][code_stride], before they are interleaved
  int64_t code_stride = 0;
  uint16_t* draws = nullptr;
  uint32_t* words = nullptr;
  uint32_t* amax = nullptr;  ///< [tile rows of a panel][blocks of a chunk]; as decode, multiplier
  float* decode = nullptr;
  float* multiplier = nullptr;
  float* tensors = nullptr;  ///< as decode: parts of the second scales of the blocks' regions
  float* factors = nullptr;
  float* trial_values = nullptr;    ///< [kTriedValues][16]
  uint16_t* trial_draws = nullptr;  ///< the same
};

/// What one worker counted; summed over workers at the end, integers only.
struct alignas(64) QuantizeTotals {
  OperandStats stats;
  uint32_t amax = 0;       ///< bits of the largest |value| after the transform, NaN skipped
  bool nonfinite = false;  ///< some value was NaN or Inf

  void add(const EncodeCounts& counts) {
    stats.saturated += counts.saturated;
    stats.flushed += counts.flushed;
  }
};

/// Where a second scale is of a region: rows × cols of the operand.
struct RegionScales {
  int64_t rows = 0, cols = 0;
  int64_t across = 0;       ///< of them along K; 0: there are none
  float* tensor = nullptr;  ///< [down][across]: TwoLevelScale's parts
  float* block = nullptr;

  explicit operator bool() const { return across > 0; }
  [[nodiscard]] TwoLevelScale at(int64_t row, int64_t k) const {
    const int64_t region = row / rows * across + k / cols;
    return {tensor[region], block[region]};
  }
};

struct QuantizeJob {
  OperandSpec spec;
  PackedLayout layout;
  QuantizePlan plan;
  OperandSource source;
  ElementGrid grid;
  OtherElement other;
  OtherGrid other_grid;  ///< the same for vectors
  ScaleRequest request;
  PrepareContext context;
  std::byte* storage = nullptr;
  bool scales_by_block = false;  ///< tile and row blocks; else one scale for all
  bool by_columns = false;       ///< ColumnEncoder encodes it, else PanelEncoder
  bool divides = false;          ///< multipliers are divisors
  bool exact = false;            ///< every element by the scalar definition
  bool is_finite = false;        ///< all values, as was seen before; else not known
  float decode = 1.0f;           ///< the one scale for all
  float multiplier = 1.0f;
  RegionScales regions{};
  std::optional<QuantizeTotals> found_amax{};  ///< the largest |value|, where it was found before

  /// Of the block at (row, k).
  [[nodiscard]] TwoLevelScale second_level(int64_t row, int64_t k) const {
    return regions ? regions.at(row, k) : request.two_level;
  }
  /// What rounds the second element of a list; null: there is none.
  [[nodiscard]] const OtherGrid* list() const {
    return spec.cast.other != nullptr ? &other_grid : nullptr;
  }
  /// Operand rows of a panel, by what encodes the operand.
  [[nodiscard]] int64_t panel_rows() const;
};

/// Constants for the vector rounding of a signed floating or integer format.
[[nodiscard]] ElementGrid element_grid(const ElementFormat& element, Overflow overflow);

/// Of fp32, E8M0 or E4M3 scales, that at `at`.
[[nodiscard]] float scale_of_code(const ElementFormat& element, const std::byte* scales,
                                  int64_t at);

/// Where the operand takes the scales of a stored tensor (PrepareContext::stored): that of the
/// block that begins at (row, k), whose values are multiplied by nothing.
void take_stored_scale(const QuantizeJob& job, int64_t row, int64_t k, float& decode,
                       float& multiplier);

/// What the scales of a cast follow from; a second level is found with the values.
[[nodiscard]] ScaleRequest scale_request(const Operand& cast);

/// Where they lie in an operand's storage; none where the second scale is the tensor's.
[[nodiscard]] RegionScales region_scales(const OperandSpec& spec, const PackedLayout& layout,
                                         std::byte* storage);

/// Everything but the scales that depend on the whole tensor.
[[nodiscard]] QuantizeJob quantize_job(const PackedOperand& packed, const ConstView& source,
                                       const PrepareContext& context, const DrawGroups& groups);

/// A source that two operands are made of is walked in tiles, which stay in the L2 cache: their
/// number, whether an operand can be made tile by tile, and the area of it that a tile becomes.
[[nodiscard]] int64_t source_tiles(const ConstView& source);
[[nodiscard]] bool can_be_tiled(const QuantizeJob& job);
[[nodiscard]] Piece tile_area(const QuantizeJob& job, int64_t tile);

/// Scratch of a worker; checks that it is large enough.
[[nodiscard]] QuantizeScratch quantize_scratch(const QuantizePlan& plan,
                                               std::span<std::byte> memory);

}  // namespace ng::cpu
