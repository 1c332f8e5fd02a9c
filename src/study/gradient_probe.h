// The gradient of a language model in the numbers of a recipe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "run/run.h"
#include "train/run_config.h"
#include "train/trainer.h"

namespace ng::study {

/// A model and what it learns from.
struct ProbeTask {
  ModelConfig model;
  int64_t sequences = 1;   ///< of a batch
  int64_t length = 0;      ///< tokens of each; 0: the model's context
  uint64_t seed = 1;       ///< of weights and draws
  bool masked = false;     ///< `fill` gives masks
  bool documents = false;  ///< `fill` says where documents begin, and no token sees another's
  std::function<void(int64_t batch, const BatchSpans& to)> fill;
};

/// A Llama of 2 layers, width 64, context 64, 8 sequences of generated text a batch; after
/// `batches` the text begins again.
[[nodiscard]] ProbeTask generated_task(uint64_t seed, int64_t batches = 80);

/// What a training run learns: its model, and batches of its text by step and micro-batch.
struct RunText {
  ModelConfig model;
  int64_t length = 0;
  bool masked = false;
  std::function<void(int64_t step, int64_t micro, const BatchSpans& to)> fill;
};
/// Throws Error for what is wrong with the run's files.
[[nodiscard]] RunText text_of_run(const RunConfig& config);

/// A model in the numbers of a recipe whose gradients can be looked at.
class GradientProbe {
 public:
  /// Weights as initialized. Throws Error where the recipe cannot run.
  GradientProbe(const std::string& recipe, const ProbeTask& task, Threads threads);
  GradientProbe(const GradientProbe&) = delete;
  GradientProbe& operator=(const GradientProbe&) = delete;

  /// One step of AdamW on batch `step`; returns the loss before it.
  double train(int64_t step, float lr);
  /// Of the same model in any recipe; what noise on them learns begins anew.
  void copy_weights(const GradientProbe& from);
  /// For weights from elsewhere.
  [[nodiscard]] Run& run() { return *run_; }
  [[nodiscard]] const Recipe& recipe() const { return recipe_; }
  void set_phase(int phase) { trainer_->set_phase(phase); }
  /// Some operand is scaled by what earlier gradients have seen: the first has seen nothing.
  [[nodiscard]] bool scales_by_history() const;
  /// Gradients of the blocks' matrices on batch `batch`, one after the other, with the random
  /// draws of step `draw`. The weights stay.
  [[nodiscard]] std::vector<float> gradient(int64_t batch, int64_t draw);

  /// Of the batch of the last gradient.
  [[nodiscard]] double loss() const { return loss_; }

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
  [[nodiscard]] std::vector<const Parameter*> block_matrices() const;

  Recipe recipe_;
  std::function<void(int64_t batch, const BatchSpans& to)> fill_;
  std::unique_ptr<Run> run_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Trainer> trainer_;
  double loss_ = 0;
};

}  // namespace ng::study
