// Run: what every layer needs while it works: the backend, the step's memory, where in training we
// are, and the stack on which forward leaves tensors for backward.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "run/arena.h"
#include "run/plan_backend.h"
#include "run/timed_backend.h"

namespace ng {

/// Where in training an operation takes place; part of every random key.
struct Moment {
  uint32_t step = 0;
  uint32_t micro = 0;
  uint32_t micros = 1;  ///< micro-batches in this step
};

/// Finds the first tensor that stopped being finite; used in a repeat of a failed step.
struct Diagnosis {
  bool found = false;
  std::string layer;    ///< "blocks.3.mlp.up"
  std::string operand;  ///< "fprop.input", "dgrad.grad", "output", ...
};

/// Hears of every operand that a linear layer takes into a GEMM and that its cast may have changed
/// beyond rounding to BF16; `source` as it was before the cast.
class OperandObserver {
 public:
  virtual ~OperandObserver() = default;
  virtual void operand(const PackedOperand& packed, ConstView source, std::string_view layer,
                       std::string_view role) = 0;
};

/// Memory that lives as long as the run, e.g. weights and moments.
struct Persistent {
  std::byte* memory = nullptr;
  size_t bytes = 0;
  MemoryKind kind = MemoryKind::state;
};

class Run {
 public:
  Run(std::unique_ptr<Backend> backend, uint64_t seed);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// The backend, or during a dry run one that only counts.
  [[nodiscard]] Backend& ops() { return recording() ? static_cast<Backend&>(*plan_) : *backend_; }
  /// Where the time went since the last reset.
  [[nodiscard]] const TimeByKind& seconds() const { return backend_->seconds(); }
  void reset_seconds() { backend_->reset_seconds(); }
  /// While the result lives, GEMMs count as the head's.
  [[nodiscard]] TimedBackend::InHead time_as_head() { return TimedBackend::InHead(*backend_); }
  [[nodiscard]] uint64_t seed() const { return seed_; }
  [[nodiscard]] const Moment& moment() const { return moment_; }
  void set_moment(const Moment& moment) { moment_ = moment; }

  // Memory of the step --------------------------------------------------------------------------
  [[nodiscard]] Tensor tensor(int64_t rows, int64_t cols,
                              MemoryKind kind = MemoryKind::activations) {
    return arena_.allocate(rows, cols, kind);
  }
  [[nodiscard]] Tensor bytes(size_t count, MemoryKind kind) {
    return arena_.allocate_bytes(count, kind);
  }
  /// Dry run of `body`: nothing is computed, the result says what memory `body` needs.
  template <class Body>
  [[nodiscard]] Program record(const Body& body) {
    begin_record();
    body();
    return end_record();
  }
  /// Makes the arena large enough for `programs`. Call once, before the first replay.
  void reserve(const std::vector<const Program*>& programs);
  /// Runs `body` for real in the places that `program` recorded.
  template <class Body>
  void replay(const Program& program, const Body& body) {
    begin_replay(program);
    body();
    end_replay();
  }
  [[nodiscard]] bool recording() const { return arena_.recording(); }

  // Memory of the run ---------------------------------------------------------------------------
  /// Zeroed FP32 matrix that lives as long as the run.
  [[nodiscard]] View persistent(int64_t rows, int64_t cols, MemoryKind kind);
  [[nodiscard]] std::byte* persistent_bytes(size_t bytes, MemoryKind kind);
  /// Bytes of everything persistent, by kind, the backend's scratch included.
  [[nodiscard]] MemoryByKind persistent_by_kind() const;
  /// All bytes taken so far: persistent, arena, scratch.
  [[nodiscard]] size_t allocated_bytes() const;

  // Forward leaves, backward takes --------------------------------------------------------------
  /// False in evaluation and in the first pass of a recomputed block: nothing is kept.
  [[nodiscard]] bool saving() const { return saving_; }
  void set_saving(bool saving) { saving_ = saving; }
  void save(Tensor tensor);
  [[nodiscard]] Tensor restore();

  /// True while training for the first time through: only then are counters and histories
  /// written. Evaluation and recomputation leave no trace.
  [[nodiscard]] bool writes_statistics() const { return statistics_; }
  void set_writes_statistics(bool writes) { statistics_ = writes; }
  /// Evaluation never draws: stochastic casts round to nearest.
  [[nodiscard]] bool evaluating() const { return evaluating_; }
  void set_evaluating(bool evaluating) { evaluating_ = evaluating; }

  // Measuring what casts lose ---------------------------------------------------------------------
  /// Who hears of operands while statistics are written; null: nobody.
  void set_operand_observer(OperandObserver* observer) { operand_observer_ = observer; }
  void show_operand(const PackedOperand& packed, ConstView source, std::string_view layer,
                    std::string_view role) {
    if (operand_observer_ != nullptr && statistics_ && !recording())
      operand_observer_->operand(packed, source, layer, role);
  }

  // Finding the origin of NaN -------------------------------------------------------------------
  /// How many values are NaN or infinite, as the host sees it: not in a step.
  [[nodiscard]] uint64_t count_nonfinite(ConstView values);
  void start_diagnosis();
  [[nodiscard]] Diagnosis finish_diagnosis();
  /// Where a diagnosis runs, notes the first tensor with a non-finite value.
  void examine(ConstView values, std::string_view layer, std::string_view operand);

 private:
  void begin_record();
  [[nodiscard]] Program end_record();
  void begin_replay(const Program& program);
  void end_replay();

  std::unique_ptr<TimedBackend> backend_;
  std::unique_ptr<PlanBackend> plan_;
  uint64_t seed_;
  Moment moment_;
  std::vector<Persistent> persistents_;
  Persistent arena_memory_;
  Arena arena_;
  std::vector<Tensor> saved_;  // destroyed before arena_
  size_t most_saved_ = 0;
  bool saving_ = true;
  bool statistics_ = true;
  bool evaluating_ = false;
  bool diagnosing_ = false;
  OperandObserver* operand_observer_ = nullptr;
  Diagnosis diagnosis_;
  uint64_t* nonfinite_ = nullptr;  // persistent counter of count_nonfinite
};

/// While it lives nothing is kept for a backward pass, counted or drawn.
class EvaluationMode {
 public:
  explicit EvaluationMode(Run& run)
      : run_(run),
        saving_(run.saving()),
        statistics_(run.writes_statistics()),
        evaluating_(run.evaluating()) {
    set(false, false, true);
  }
  ~EvaluationMode() { set(saving_, statistics_, evaluating_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  void set(bool saving, bool statistics, bool evaluating) {
    run_.set_saving(saving);
    run_.set_writes_statistics(statistics);
    run_.set_evaluating(evaluating);
  }
  Run& run_;
  bool saving_, statistics_, evaluating_;
};

}  // namespace ng
