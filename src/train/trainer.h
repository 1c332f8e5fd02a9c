// One training step after the other: forward, backward, decide, update; and evaluation batches.
// Knows nothing of files. Everything a step needs is planned and allocated before step 1.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/device_batch.h"
#include "model/model.h"
#include "optim/optimizer.h"
#include "run/run.h"
#include "train/data_parallel.h"
#include "train/dpo.h"
#include "train/memory_plan.h"
#include "train/operand_error.h"
#include "train/shared_scales.h"

namespace ng {

struct StepSettings {
  int64_t sequences = 1;  ///< in a micro-batch
  int64_t length = 1;     ///< tokens of a sequence
  int64_t micros = 1;     ///< micro-batches of a rank in a step
  /// The masks of train_tokens() say which targets count; else all do, and masks are not read.
  bool masked = false;
  /// No token sees one of another document; train_tokens() says where these begin.
  bool document_mask = false;
  OptimizerSettings optimizer;
  double clip = 1.0;  ///< largest global gradient norm; 0: no clipping
  Determinism determinism = Determinism::ranks;
  /// The loss is that of pairs of sequences; then `masked`, and `sequences` are even.
  std::optional<DpoSettings> dpo{};
};

struct StepReport {
  /// Mean over the step's targets, or pairs, before the update; 0 where none counts.
  double loss = 0;
  double grad_norm = 0;
  /// That count. A step without any leaves weights, moments and delayed scales as they are: it
  /// says nothing about them, and weight decay alone would only wear them down.
  int64_t targets = 0;
  std::optional<PreferenceMetrics> preferences{};  ///< of the step's pairs
  BytesByTraffic sent{};       ///< by all ranks together in this step, by what it was
  ExchangeSeconds exchange{};  ///< of gradients and new values in this step, on this rank
  bool skipped = false;        ///< something was not finite: weights and moments are unchanged
  /// "moment2.blocks.0.mlp.up.weight": why it was skipped, where that is a state that would not
  /// hold its new values, and as what it is stored; else empty.
  std::string overflowing, format;
};

class Trainer {
 public:
  /// Claims optimizer states, dry-runs every phase of the recipe and takes the memory. `reference`
  /// is the model of a frozen recipe that settings.dpo needs.
  Trainer(Run& run, Model& model, const Recipe& recipe, const StepSettings& settings,
          Model* reference = nullptr);

  [[nodiscard]] MemoryPlan memory() const;
  /// Of all ranks.
  [[nodiscard]] int64_t tokens_per_step() const {
    return settings_.sequences * settings_.length * parallel_.micros_of_all();
  }
  /// Which of a step's micro-batches is this rank's first.
  [[nodiscard]] int64_t first_micro() const { return parallel_.first_micro(); }
  [[nodiscard]] int64_t micros_of_all() const { return parallel_.micros_of_all(); }
  [[nodiscard]] const StepSettings& settings() const { return settings_; }

  /// To be filled before step().
  [[nodiscard]] BatchSpans train_tokens(int64_t micro);
  /// To be filled before evaluate().
  [[nodiscard]] BatchSpans evaluation_tokens();

  void set_phase(int phase);
  [[nodiscard]] int phase() const { return phase_; }

  /// Called in each step when all gradients are complete, before they are clipped and used; empty:
  /// never. The parameters' `grad` exist only then.
  void set_gradient_observer(std::function<void()> observer) {
    gradient_observer_ = std::move(observer);
  }

  /// Whether steps report what operands lose and what updates do. They do the same either way;
  /// reporting takes FP32's AdamW about twice as long.
  void set_reports_details(bool reports) { reports_details_ = reports; }
  /// What the operands of the last step that reported lost.
  [[nodiscard]] const OperandErrors& operand_errors() const { return operand_errors_; }
  /// What the updates of the last step did, by model.parameters(), where they report.
  [[nodiscard]] std::vector<UpdateReport> update_reports();

  /// Trains on train_tokens(); `step` counts from 0. Allocates nothing.
  StepReport step(int64_t step, float lr);
  /// Repeats the last, skipped step without its update and names the first non-finite tensor.
  [[nodiscard]] Diagnosis diagnose(int64_t step);
  /// Σ cross-entropy over the unmasked evaluation_tokens(); Σ loss of their pairs where the loss is
  /// that of pairs.
  [[nodiscard]] double evaluate();
  /// The same with all that is known of these pairs.
  [[nodiscard]] PreferenceSums evaluate_pairs();

 private:
  void record_programs(const Recipe& recipe);
  void train_micro(int64_t step, int64_t micro);
  void forward_backward(int64_t step);
  void update(int64_t step, float lr);
  void forget_step();
  /// Whether the host reads and writes nothing between the first operation of a step and its last.
  [[nodiscard]] bool is_left_to_backend() const;
  [[nodiscard]] StepNumbers numbers_of(int64_t step, float lr) const;
  [[nodiscard]] StepReport report_of(const StepControl& control);
  void evaluate_body();
  [[nodiscard]] Batch train_batch(int64_t micro) const;
  /// What the loss is the mean over, of all ranks.
  [[nodiscard]] int64_t terms() const;

  Run& run_;
  Model& model_;
  StepSettings settings_;
  DataParallel parallel_;
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<SharedScales> shared_scales_;  // once states are claimed
  std::optional<Dpo> dpo_;
  int phase_ = 0;
  int64_t targets_ = 0;                  // that count in the present step, all micro-batches
  std::vector<Program> train_programs_;  // by phase
  std::vector<std::unique_ptr<RepeatedStep>> repeated_steps_;  // of train_programs_
  std::vector<Program> diagnosis_programs_;   // by phase: a step without its update
  std::vector<Program> evaluation_programs_;  // by phase
  DeviceBatch tokens_;                        // all micro-batches, then the evaluation batch
  StepControl* control_;                      // backend memory
  double* sum_of_squares_;                    // backend memory
  double* evaluation_loss_;                   // backend memory
  std::span<UpdateReport> update_reports_;    // backend memory, by model_.owned()
  OperandErrors operand_errors_;
  bool reports_details_ = false;
  std::function<void()> gradient_observer_;
};

}  // namespace ng
