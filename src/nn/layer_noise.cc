#include "nn/layer_noise.h"

#include <algorithm>
#include <limits>

#include "math/log.h"
#include "recipe/layer_names.h"
#include "run/transfer.h"

namespace ng {

NoisyWeight LayerNoise::noise_on(const Run& run, const Parameter& weight,
                                 const ConstView& values) const {
  return {.kind = recipe_.kind,
          .weight = values,
          .bit_widths = bit_widths_->value(),
          .clip = clip_ == nullptr ? ConstView() : clip_->value(),
          .block = recipe_.block,
          .b_init = static_cast<float>(recipe_.b_init),
          .b_target = static_cast<float>(recipe_.b_target),
          .key = {.seed = run.rounding_seed(),
                  .tensor = weight.id,
                  .step = run.moment().step,
                  .purpose = Purpose::weight_noise},
          .bits_tensor = bit_widths_->id};
}

void LayerNoise::start(Run& run, const Parameter& weight) const {
  run.execute(Fill{.x = bit_widths_->value(), .value = first_bit_width(recipe_)});
  if (clip_ == nullptr) return;
  std::vector<float> row(static_cast<size_t>(weight.spec.cols));
  float most = -std::numeric_limits<float>::infinity();
  for (int64_t r = 0; r < weight.spec.rows; ++r) {
    download_row(run.backend(), weight.value(), r, row);
    most = std::max(most, *std::max_element(row.begin(), row.end()));
  }
  run.execute(Fill{.x = clip_->value(), .value = most});
}

Stored LayerNoise::noisy(Run& run, Parameter& weight, OperandStats* stats) const {
  if (!weight.noisy) {
    const ReadableWeight values = readable(run, weight);
    weight.noisy =
        cast_tensor(run, weight.spec.rows, weight.spec.cols, recipe_.cast, MemoryKind::operands);
    weight.noise_scales = run.tensor(bit_widths_->spec.rows, bit_widths_->spec.cols, fp32_format(),
                                     MemoryKind::operands);
    make(run, weight, values.view, stats);
  }
  return {weight.noisy.view, weight.noisy.cast};
}

void LayerNoise::make(Run& run, Parameter& weight, const ConstView& values,
                      OperandStats* stats) const {
  const Stored y{weight.noisy.view, weight.noisy.cast};
  const NoisyWeight of = noise_on(run, weight, values);
  const auto add_into = [&](const View& sum) {
    run.execute(AddNoise{.y = sum, .scales = weight.noise_scales, .of = of});
  };
  if (recipe_.casts_plainly()) return add_into(y.view);
  const Tensor sum =  // in FP32: one rounding
      run.tensor(weight.spec.rows, weight.spec.cols, fp32_format(), MemoryKind::operands);
  add_into(sum);
  run.execute(cast_of_noisy(recipe_, y, sum.view(), of));
  if (stats != nullptr) run.execute(CountCast{.stats = stats, .x = sum.view(), .y = y.view});
}

ReadableWeight LayerNoise::quiet(Run& run, const Parameter& weight) const {
  const ReadableWeight values = readable(run, weight);
  if (!quantizes()) return values;
  const ElementFormat& element = recipe_.cast.is_fp32() ? fp32_format() : bf16_format();
  Tensor levels = run.tensor(weight.spec.rows, weight.spec.cols, element, MemoryKind::operands);
  run.execute(QuantizeByProxy{.y = levels, .of = noise_on(run, weight, values.view)});
  return {levels.view(), std::move(levels)};
}

void LayerNoise::backward(Run& run, Parameter& weight) const {
  const bool reads_weight = quantizes();
  const ReadableWeight values =
      reads_weight ? readable(run, weight) : ReadableWeight{weight.grad.view(), {}};
  run.execute(
      AddNoiseBackward{.bits = gradient_target(run, *bit_widths_).view,
                       .clip = clip_ == nullptr ? View() : gradient_target(run, *clip_).view,
                       .grad = weight.grad,
                       .scales = weight.noise_scales,
                       .of = noise_on(run, weight, values.view)});
}

void LayerNoise::finish(Run& run, const Parameter& weight) const {
  run.execute(FinishNoiseGradient{.bits = bit_widths_->grad,
                                  .clip = clip_ == nullptr ? View() : View(clip_->grad),
                                  .of = noise_on(run, weight, {}),
                                  .lambda = static_cast<float>(recipe_.bitwidth_loss)});
}

Operation cast_of_noisy(const WeightNoise& recipe, const Stored& y, const ConstView& x,
                        const NoisyWeight& of) {
  if (recipe.casts_plainly()) return Copy{.y = y.view, .x = x};
  if (recipe.casts_by_table) return RoundByBits{.y = y.view, .x = x, .of = of};
  RandomKey key = of.noise_key();
  key.purpose = Purpose::fprop_weight;  // which is not rounded again
  return StoreGradient{.y = y, .x = x, .key = key};
}

float first_bit_width(const WeightNoise& recipe) {
  if (recipe.kind != NoiseKind::nipq) return 1;
  const double share = (recipe.b_init - 2) / 12;  // of the range of bit-widths
  return static_cast<float>(math::log(share / (1 - share)));
}

std::vector<ParameterSpec> noise_parameters(const WeightNoise& recipe, std::string_view layer,
                                            int64_t rows, int64_t cols) {
  const BlockGrid blocks = block_grid(recipe.block, rows, cols);
  const bool is_clipped = recipe.kind == NoiseKind::nipq;
  ParameterSpec bits{
      .name = layers::bits_of(layer),
      .hf_name = "",
      .rows = blocks.down(),
      .cols = blocks.across(),
      .is_vector = true,
      .init = Init::ones,
      .weight_decay = is_clipped ? 0.0f : static_cast<float>(recipe.bitwidth_weight_decay)};
  if (!is_clipped) return {std::move(bits)};
  ParameterSpec clip = bits;
  clip.name = layers::clip_of(layer);
  return {std::move(bits), std::move(clip)};
}

}  // namespace ng
