// Noise on weights in place of quantizing them, and its adjoint. Rules for all operations:
// operations.h. [recipes.md §1; errata-2, 2, 6-10]
#pragma once

#include <cstdint>
#include <string_view>

#include "backend/operand_spec.h"
#include "backend/operation_words.h"
#include "format/block_grid.h"
#include "math/weight_noise.h"
#include "tensor/view.h"

namespace ng {

enum class NoiseKind : uint8_t {
  none,
  gaussws,  ///< R a rounded normal number of {0, ±1, ±2}
  diffq,    ///< R uniform in ±1/2, rounded to BF16
  nipq,     ///< clipped at a learned α; n uniform in ±1/2 [recipes.md §1.3]
};

/// Rows and columns of a square block.
inline constexpr int64_t kNoiseBlock = 32;

/// A weight and what noise on it is made of. Blocks of weights share a bit-width:
///   b_t = b_target + b_i·(b_init - b_target);  s = max|w| of the block · 2^(1 - b_t)
///   gaussws, diffq: ŵ = w + R·s
///   nipq: α = softplus(clip); b = 2 + 12·sigmoid(β), and in training the nearest whole number to
///     b + u, u uniform in ±1/2; Δ = α/(2^(b-1) - 1); ŵ = ±α where |w| >= α, else w + n·Δ
/// Draws are those of `key` with purpose 1, the same for every micro-batch of a step.
struct NoisyWeight {
  NoiseKind kind = NoiseKind::gaussws;
  ConstView weight;
  ConstView bit_widths;  ///< b_i of each block, FP32; nipq: β
  ConstView clip{};      ///< nipq: (1, 1), FP32
  Block block;           ///< 32 × 32, or the tensor
  float b_init = 6, b_target = 4;
  RandomKey key{};
  uint32_t bits_tensor = 0;  ///< nipq: id of the bit-widths, by which u is drawn
  ConstView noise{};         ///< R or n given instead of drawn, where it has rows: FP32
  /// nipq: u given instead of drawn, where it has a row.
  ConstView bit_noise{};

  /// Where the blocks lie in the weight.
  [[nodiscard]] BlockGrid grid() const { return block_grid(block, weight.rows, weight.cols); }
  /// By which noise is drawn: one for all micro-batches.
  [[nodiscard]] RandomKey noise_key() const;
  void check_shapes() const {
    NG_CHECK(bit_widths.rows == grid().down() && bit_widths.cols == grid().across(),
             bit_widths.rows, bit_widths.cols, grid().down(), grid().across());
    NG_CHECK(noise.rows == 0 || same_shape(noise, weight), noise.rows, noise.cols);
    NG_CHECK((kind == NoiseKind::nipq) == (clip.rows == 1), clip.rows);
    NG_CHECK(kind != NoiseKind::nipq || block.kind == Block::Kind::tensor, weight.rows);
    NG_CHECK(block.kind == Block::Kind::tensor ||
                 (block.rows == kNoiseBlock && block.cols == kNoiseBlock),
             block.rows, block.cols);
  }
};

/// b_t of the block at (i, j); nipq: b, without noise.
[[nodiscard]] float bits_of(const NoisyWeight& of, int64_t i, int64_t j);

/// nipq in training: with the noise of its bit-width, given or drawn.
[[nodiscard]] NoiseProxy proxy_of(const NoisyWeight& of);
/// nipq at evaluation: without noise.
[[nodiscard]] NoiseProxy quiet_proxy_of(const NoisyWeight& of);

/// y = ŵ of the weight as it is stored, rounded to what y is stored as, and what noise was
/// multiplied by.
struct AddNoise {
  static constexpr std::string_view kName = "add_noise";
  static constexpr TimeKind kTime = TimeKind::weight_noise;
  View y;       ///< FP32 or BF16
  View scales;  ///< s of each block, nipq: Δ; FP32
  NoisyWeight of;
  void each_output(const auto& f) const {
    f("y", y);
    f("scales", scales);
  }
};

/// y = ŵ as AddNoise left it in FP32, each block rounded to the format that Table C.1 names for its
/// b_t [format/learned_formats.h], scaled by a power of two so that none of it saturates; then as y
/// is stored. A block is as it was where a value or its b_t is not finite.
struct RoundByBits {
  static constexpr std::string_view kName = "round_by_bits";
  static constexpr TimeKind kTime = TimeKind::weight_noise;
  View y;  ///< FP32 or BF16
  ConstView x;
  NoisyWeight of;  ///< needs no weight but its shape
  void each_output(const auto& f) const { f("y", y); }
};

/// Adds to `stats` what a cast made of `x`: saturated, flushed and narrowed values of `y`, which
/// has the scales of the cast where there are any.
struct CountCast {
  static constexpr std::string_view kName = "count_cast";
  static constexpr TimeKind kTime = TimeKind::weight_noise;
  OperandStats* stats = nullptr;
  ConstView x;  ///< FP32
  ConstView y;
  void each_output(const auto& /* f */) const {}
};

/// What nipq's noise stood for, at evaluation; nothing is drawn:
///   y = ±α where |w| >= α, else round(w/Δ)·Δ, to nearest even, b of Δ without u
/// [recipes.md §1.3]
struct QuantizeByProxy {
  static constexpr std::string_view kName = "quantize_by_proxy";
  static constexpr TimeKind kTime = TimeKind::weight_noise;
  View y;  ///< FP32 or BF16
  NoisyWeight of;
  void each_output(const auto& f) const { f("y", y); }
};

/// From dL/dŵ, which for gaussws and diffq is dL/dw:
///   bits = dL/db_t = -ln2·s·Σ of the block dL/dŵ·R
/// nipq: `grad` becomes dL/dw = dL/dŵ where |w| < α, else 0, and
///   bits = dL/db = Σ of the unclipped dL/dŵ·n·∂Δ/∂b
///   clip = dL/dα = Σ dL/dŵ·(±1 where clipped, else n·∂Δ/∂α)
/// Sums are those of tiles of 32 × 32 in order, in FP64; in a tile lane l of 16 adds columns l and
/// l + 16, rows in order, in FP32, nipq's in FP64, and lanes fold by +8, +4, +2, +1.
struct AddNoiseBackward {
  static constexpr std::string_view kName = "add_noise_backward";
  static constexpr TimeKind kTime = TimeKind::weight_noise;
  View bits;         ///< of each block, FP32
  View clip{};       ///< nipq: (1, 1), FP32
  View grad;         ///< dL/dŵ, FP32 or BF16
  ConstView scales;  ///< as AddNoise left them
  NoisyWeight of;    ///< of the weight only nipq reads more than its shape
  void each_output(const auto& f) const {
    f("bits", bits);
    if (clip.rows > 0) f("clip", clip);
  }
};

/// Once per update, of the sum over micro-batches, the gradients of what is learned, the loss
/// λ·mean|b_t - b_target| of all blocks of a layer included:
///   bits = (b_init - b_target)·(bits + λ/blocks·sign(b_t - b_target))
///   nipq: bits = 12·σ(β)·(1 - σ(β))·(bits + λ·sign(b - b_target));  clip = σ(a)·clip
/// [recipes.md §1.1, eq. 11 and 12; errata-2, 7, 10]
struct FinishNoiseGradient {
  static constexpr std::string_view kName = "finish_noise_gradient";
  static constexpr TimeKind kTime = TimeKind::weight_noise;
  View bits;       ///< FP32
  View clip{};     ///< nipq: FP32
  NoisyWeight of;  ///< needs no weight
  float lambda = 0;
  void each_output(const auto& f) const {
    f("bits", bits);
    if (clip.rows > 0) f("clip", clip);
  }
};

}  // namespace ng
