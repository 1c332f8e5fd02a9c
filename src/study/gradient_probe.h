// The gradient of a small language model in the numbers of a recipe, against the one in FP32.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "run/run.h"
#include "study/study.h"
#include "train/trainer.h"

namespace ng::study {

/// A Llama of 2 layers, width 64, context 64, 8 sequences of generated text a step.
class GradientProbe {
 public:
  /// Weights as initialized. Throws Error where the recipe cannot run.
  GradientProbe(const std::string& recipe, uint64_t seed, Threads threads);
  GradientProbe(const GradientProbe&) = delete;
  GradientProbe& operator=(const GradientProbe&) = delete;

  /// One step of AdamW on batch `step`; returns the loss before it.
  double train(int64_t step, float lr);
  void copy_weights(const GradientProbe& from);
  /// Gradients of the blocks' matrices on batch `batch`, one after the other, with the random
  /// draws of step `draw`. The weights stay.
  [[nodiscard]] std::vector<float> gradient(int64_t batch, int64_t draw);

  /// The matrices that gradient() goes through, "blocks.0.attn.q.weight", and their sizes.
  struct Matrix {
    std::string name;
    int64_t size = 0;
  };
  [[nodiscard]] std::vector<Matrix> matrices() const;
  /// Share of the values of an operand, over all layers of the blocks in the last gradient,
  /// that were not 0 and became 0; 0 where the recipe counts none.
  [[nodiscard]] double flushed(OperandRole role) const;

 private:
  void fill(int64_t batch);
  [[nodiscard]] std::vector<const Parameter*> block_matrices() const;

  Recipe recipe_;
  std::unique_ptr<Run> run_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Trainer> trainer_;
  std::vector<int32_t> text_;
};

/// <g, reference> / <reference, reference>: 1 where g is unbiased.
[[nodiscard]] double projection(std::span<const float> g, std::span<const float> reference);
/// ‖g - reference‖ / ‖reference‖
[[nodiscard]] double relative_error(std::span<const float> g, std::span<const float> reference);

}  // namespace ng::study
