// Operand: how a tensor is written as narrow numbers. A recipe names six per linear layer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "format/packing.h"
#include "format/table.h"
#include "math/round.h"

namespace ng {

using narrowgauge::Block;
using narrowgauge::Fits;
using narrowgauge::Overflow;
using narrowgauge::Rounding;
using narrowgauge::ScaleKind;
using narrowgauge::ScaleRule;  // [formats.md §3.2, §4.1]
using narrowgauge::Select;
using narrowgauge::Subnormals;
enum class Scaling : uint8_t { current, delayed };
enum class AmaxCompute : uint8_t { max, most_recent };
enum class ScaleOf : uint8_t { amax, rms, mean_abs };  ///< what of a block its scale is made of
enum class From : uint8_t { original, fprop };         ///< what a backward operand is made of
/// Values that the codes of an optimizer's state stand for, in place of the element's numbers.
enum class CodeMap : uint8_t { none, dynamic };
/// How codes as they lie stand for values: an element · scale, one of 256 values · scale, of either
/// sign or none below zero, or a power of element · scale. [linear.md 9]
enum class Coding : uint8_t { elements, dynamic, positive_dynamic, expanded };
/// What of its gradient the rounding of a forward operand lets through. [linear.md 6]
enum class RoundingGradient : uint8_t { straight, clip, dge };

/// The encoder's word for it.
[[nodiscard]] constexpr OverflowRule overflow_rule(Overflow overflow) {
  return overflow == Overflow::special ? OverflowRule::special : OverflowRule::saturate;
}

/// The cast of one GEMM operand, an optimizer state or a stored weight. [recipes.md §7]
struct Operand {
  const ElementFormat* element = nullptr;
  const ElementFormat* other = nullptr;  ///< of a list of two; a block takes the better one
  Block block;
  ScaleKind scale = ScaleKind::none;
  ScaleKind tensor_scale = ScaleKind::none;  ///< second level: none, fp32 or pow2
  Block tensor_block;                        ///< what one scale of the second level covers
  Scaling scaling = Scaling::current;
  int amax_history = 1024;  ///< delayed scaling only
  AmaxCompute amax_compute = AmaxCompute::max;
  int margin = 0;
  ScaleRule scale_rule = ScaleRule::floor;
  ScaleOf scale_of = ScaleOf::amax;
  Fits fit = {};  ///< none: the element's largest value
  Select select = Select::mse;
  float scale_max = 448.0f;  ///< two-level scales only
  Rounding rounding = Rounding::nearest;
  int sr_bits = 16;
  Overflow overflow = Overflow::saturate;
  Subnormals subnormals = Subnormals::keep;
  float prescale = 1.0f;
  From from = From::original;  ///< of a linear layer's dgrad.weight and wgrad.input
  RoundingGradient gradient = RoundingGradient::straight;  ///< of fprop.input and fprop.weight
  float dge_k = 5, dge_max = 3;                            ///< dge only
  // Of optimizer.moment1 and .moment2 only. [linear.md 9]
  CodeMap map = CodeMap::none;
  bool is_positive = false;   ///< no value is below zero: a map has all its values above. No key
  bool expand = false;        ///< a power of each block's values is stored
  int parts = 1;              ///< 2: what rounding lost is stored, too
  int min_size = kNoMinSize;  ///< states of fewer values are FP32; kNoMinSize: as the run says
  static constexpr int kNoMinSize = -1;

  friend bool operator==(const Operand&, const Operand&) = default;

  /// No rounding at all: FP32 without scale.
  [[nodiscard]] bool is_fp32() const;
  /// Elements are rounded as they are, whatever they are: nothing scales them.
  [[nodiscard]] bool is_unscaled() const { return scale == ScaleKind::none; }
  /// Floats of one power of two for the whole tensor: scaling moves no element between binades.
  [[nodiscard]] bool has_one_power_of_two() const;
  /// Scales of the second level differ along the reduction, so that products read each block's
  /// scale as one FP32 number, fl(scale · scale of its region). [linear.md 7]
  [[nodiscard]] bool has_folded_scales() const { return tensor_block.kind == Block::Kind::tile; }
  /// BF16 holds every element with its block's scale, subnormal and infinite products aside; scales
  /// of rows and of the whole do not count.
  [[nodiscard]] bool factors_are_bf16() const;
  /// BF16 holds every value: eight significant bits and scales that are powers of two.
  [[nodiscard]] bool is_exact_in_bf16() const;
  [[nodiscard]] Coding coding() const {
    if (expand) return Coding::expanded;
    if (map == CodeMap::none) return Coding::elements;
    return is_positive ? Coding::positive_dynamic : Coding::dynamic;
  }
  /// A value is stored otherwise than as one element · scale: by another coding, or in parts.
  [[nodiscard]] bool is_coded() const { return coding() != Coding::elements || parts > 1; }
  /// The same, rounded otherwise: by 16 bits where that is stochastically.
  [[nodiscard]] Operand rounded_by(Rounding mode) const;
  /// The same without what only a backward pass reads.
  [[nodiscard]] Operand passing_straight() const;
};

/// The operand that a format name of recipes.md §7 stands for ("mxfp4", "fp8_e4m3", ...);
/// nullptr-element Operand is never returned: throws Error naming the nearest known format.
[[nodiscard]] Operand operand_of(std::string_view format_name);

/// All names operand_of knows, in the order of recipes.md §7.
[[nodiscard]] std::span<const std::string_view> operand_names();

/// "tensor", "row" or "1x32".
[[nodiscard]] std::string text_of(const Block& block);
/// As recipes write it: "e8m0".
[[nodiscard]] std::string_view name_of(ScaleKind kind);
[[nodiscard]] std::string_view name_of(ScaleRule rule);
/// All scale rules, in their order: floor ... up.
[[nodiscard]] std::span<const ScaleRule> scale_rules();
/// Those that fit a kind of scale: floor ... mse for e8m0, nearest and up for e4m3, else none.
[[nodiscard]] std::span<const ScaleRule> scale_rules(ScaleKind kind);

/// One line naming what differs from a preset, e.g. "mxfp4 stochastic prescale 0.75".
[[nodiscard]] std::string describe(const Operand& operand);

/// As what the scales of blocks are stored: FP32, E8M0 or unsigned E4M3. Of a cast with scales.
[[nodiscard]] const ElementFormat& scale_element(const Operand& operand);
/// Scales along the two dimensions of a matrix that is stored by this cast.
[[nodiscard]] ScaleShape scale_shape(const Operand& operand, int64_t rows, int64_t cols);
/// The same of the second level: the regions of tensor_block, the last ones short.
[[nodiscard]] ScaleShape tensor_scale_shape(const Operand& operand, int64_t rows, int64_t cols);

/// Whether scales are stored as codes of one byte: E8M0 and E4M3.
[[nodiscard]] bool has_scale_codes(const Operand& operand);
/// Of one stored scale: 8, or 32 in FP32.
[[nodiscard]] int scale_bits(const Operand& operand);

/// FP32 numbers of each block: its scale, and with `expand` the power and the center.
[[nodiscard]] inline int numbers_per_block(const Operand& operand) {
  return operand.expand ? 3 : 1;
}
/// Bits per value including what blocks have and scales of a tensor_block [r, c] (scales of the
/// tensor and of rows count as 0), e.g. 4.25 for mxfp4.
[[nodiscard]] double bits_per_value(const Operand& operand);

}  // namespace ng
