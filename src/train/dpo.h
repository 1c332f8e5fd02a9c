// Direct preference optimization: the policy learns to prefer the chosen sequence of each pair, as
// measured against a reference that stays as the policy began. [Rafailov et al. 2023]
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "model/model.h"
#include "run/run.h"

namespace ng {

/// [dpo] of a run file.
struct DpoSettings {
  double beta = 0.1;
  double label_smoothing = 0;
  /// What the reference's weights are stored in; none: as the policy's.
  std::optional<Operand> reference_storage;
};

/// The model that a policy trained by `recipe`, which outlives it, is measured against; its values
/// are yet to be put: those that the policy begins with, then Model::take_values of the policy, so
/// that what is stored alike is the same to the bit.
[[nodiscard]] std::unique_ptr<Model> make_reference(Run& run, const Model& policy,
                                                    const Recipe& recipe,
                                                    const DpoSettings& settings);

/// Means over pairs, by the names that TRL logs them under.
struct PreferenceMetrics {
  double margins = 0;     ///< "rewards/margins"
  double accuracies = 0;  ///< "rewards/accuracies"
  double chosen_reward = 0, rejected_reward = 0;
  double chosen_logp = 0, rejected_logp = 0;
};
[[nodiscard]] PreferenceMetrics metrics_of(const PreferenceSums& sums);

class Dpo {
 public:
  /// `reference` is a model of a frozen recipe; `micros`: micro-batches of this rank in a step.
  /// Both models outlive this.
  Dpo(Run& run, Model& policy, Model& reference, const DpoSettings& settings, int64_t micros);

  /// Before the first micro-batch of a step.
  void start();
  /// Forward and backward of a batch with pairs as PreferenceLoss has them: *loss += Σ loss of the
  /// pairs, gradients are those of that sum / batch.target_count.
  void train_batch(const Batch& batch, int64_t micro, double* loss, const PartDone& done);
  /// *loss += Σ loss of the pairs, nothing kept.
  void evaluate_batch(const Batch& batch, double* loss);

  /// Of the step's micro-batches on all ranks, added in their order; called by all ranks.
  [[nodiscard]] PreferenceSums of_step();
  /// Of the batch that was evaluated last.
  [[nodiscard]] PreferenceSums of_evaluation() const;
  /// After the policy's.
  void set_phase(int phase) { reference_.set_phase(run_, phase); }

 private:
  [[nodiscard]] Tensor reference_losses(const Batch& batch);

  Run& run_;
  Model& policy_;
  Model& reference_;
  DpoSettings settings_;
  std::span<PreferenceSums> sums_;  // backend memory, by micro-batch; the last of an evaluation
};

}  // namespace ng
