// The noise on one linear layer's weight: ŵ in place of w, and the gradients of what it learns.
// No other layer knows of it. [recipes.md §1]
#pragma once

#include "nn/parameter.h"
#include "recipe/settings.h"

namespace ng {

class LayerNoise {
 public:
  /// `clip` is null but for nipq.
  LayerNoise(const WeightNoise& recipe, Parameter* bit_widths, Parameter* clip)
      : recipe_(recipe), bit_widths_(bit_widths), clip_(clip) {}

  /// First values: 1 for each bit-width; nipq: β of b_init, and clip the largest weight.
  void start(Run& run, const Parameter& weight) const;
  /// ŵ of this step, made once and kept in `weight` until it is forgotten. What a cast narrower
  /// than BF16 loses is counted in `stats`, unless that is null.
  [[nodiscard]] Stored noisy(Run& run, Parameter& weight, OperandStats* stats) const;
  /// Whether evaluation quantizes by what is learned: nipq.
  [[nodiscard]] bool quantizes() const { return recipe_.kind == NoiseKind::nipq; }
  /// What evaluation reads, where nothing is drawn: w; nipq: w quantized for real.
  [[nodiscard]] ReadableWeight quiet(Run& run, const Parameter& weight) const;
  /// After the last micro-batch of a step, of a gradient that is still as it was summed: that of
  /// the bit-widths, and of ŵ becomes that of w.
  void backward(Run& run, Parameter& weight) const;
  /// Whether the gradient of what it learns is on this rank.
  [[nodiscard]] bool has_gradient() const { return static_cast<bool>(bit_widths_->grad); }
  /// Before the gradients' norm is taken: what the bit-widths cost joins their gradient.
  void finish(Run& run, const Parameter& weight) const;

 private:
  void make(Run& run, Parameter& weight, const ConstView& values, OperandStats* stats) const;
  [[nodiscard]] NoisyWeight noise_on(const Run& run, const Parameter& weight,
                                     const ConstView& values) const;

  WeightNoise recipe_;
  Parameter* bit_widths_;
  Parameter* clip_;
};

/// y = x, FP32, as the recipe casts ŵ; `y` is stored by `recipe.cast`.
[[nodiscard]] Operation cast_of_noisy(const WeightNoise& recipe, const Stored& y,
                                      const ConstView& x, const NoisyWeight& of);

/// What bit-widths begin with: 1; nipq: β of b_init. [errata-2, 10]
[[nodiscard]] float first_bit_width(const WeightNoise& recipe);

/// What a layer with noise learns beside its weight of `rows` × `cols`, FP32: `<layer>.b_i`, which
/// begins with 1 for each block; nipq: its β, and `<layer>.alpha`. [errata-2, 10]
[[nodiscard]] std::vector<ParameterSpec> noise_parameters(const WeightNoise& recipe,
                                                          std::string_view layer, int64_t rows,
                                                          int64_t cols);

}  // namespace ng
