// Run: what every layer needs while it works: the backend, the step's memory, where in training we
// are, and the stack on which forward leaves tensors for backward.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "comm/rank_groups.h"
#include "run/arena.h"
#include "run/persistent.h"
#include "tensor/stored.h"

namespace ng {

/// Where in training an operation takes place; part of every random key.
struct Moment {
  uint32_t step = 0;
  uint32_t micro = 0;        ///< among the micro-batches of all ranks in this step
  uint32_t first_micro = 0;  ///< the first of this rank
  uint32_t micros = 1;       ///< of this rank in this step
  /// Gradients are not whole after this rank's last micro-batch: those of others are to come.
  bool is_summed_later = false;

  [[nodiscard]] bool is_last() const { return micro + 1 == first_micro + micros; }
};

/// Finds the first tensor that stopped being finite; used in a repeat of a failed step.
struct Diagnosis {
  bool found = false;
  std::string layer;    ///< "blocks.3.mlp.up"
  std::string operand;  ///< "fprop.input", "dgrad.grad", "output", ...
};

/// What an operand was made of: values before the cast, and what was taken off every row of them;
/// empty: nothing.
struct OperandOrigin {
  ConstView values, mean;
};

/// Hears of every operand that a linear layer takes into a GEMM.
class OperandObserver {
 public:
  virtual ~OperandObserver() = default;
  virtual void operand(const PackedOperand& packed, const OperandOrigin& origin,
                       std::string_view layer, std::string_view role) = 0;
};

class Run {
 public:
  /// Runs of one seed and different `twin` differ in the draws of rounding only. `world`, which
  /// outlives the run, are the ranks that train one model, in groups of `tensor_ranks` that divide
  /// its layers; null: this process alone.
  Run(std::unique_ptr<Backend> backend, uint64_t seed, uint64_t twin = 0, Comm* world = nullptr,
      int64_t tensor_ranks = 1);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// Does an operation: times it and, where a diagnosis runs, examines what it reads and writes
  /// for NaN. In a dry run nothing is done: what the backend lacks it says then.
  void execute(const Operation& operation);
  /// Bytes of storage that an operand needs.
  [[nodiscard]] size_t operand_bytes(const OperandSpec& spec) const {
    return backend_->operand_bytes(spec);
  }
  /// The ranks that divide the batch; where layers are not divided, all. What groups carry lies in
  /// backend memory.
  [[nodiscard]] Comm& comm() const { return ranks_.data(); }
  /// The ranks that divide the layers: this one alone, or its group.
  [[nodiscard]] Comm& tensor_group() const { return ranks_.tensor(); }
  /// All ranks that train this model.
  [[nodiscard]] const RankGroups& ranks() const { return ranks_; }
  /// For moving values to and from the host (run/transfer.h); operations go by execute().
  [[nodiscard]] Backend& backend() { return *backend_; }
  [[nodiscard]] const Backend& backend() const { return *backend_; }
  /// Host memory to backend memory. In a dry run nothing is done.
  template <class Value>
  void upload(Value* to, std::span<const Value> from) {
    if (!recording())
      backend_->upload(reinterpret_cast<std::byte*>(to), from.data(), from.size_bytes());
  }
  /// One value of backend memory.
  template <class Value>
  [[nodiscard]] Value read(const Value* from) const {
    Value value;
    backend_->download(&value, reinterpret_cast<const std::byte*>(from), sizeof value);
    return value;
  }
  template <class Value>
  [[nodiscard]] std::vector<Value> read(std::span<const Value> from) const {
    std::vector<Value> values(from.size());
    backend_->download(values.data(), reinterpret_cast<const std::byte*>(from.data()),
                       from.size_bytes());
    return values;
  }
  /// Where the time went since the last reset. Waits for a device that measures itself.
  [[nodiscard]] TimeByKind seconds() const;
  void reset_seconds();
  /// Time of what is no operation.
  void add_seconds(TimeKind kind, double seconds) {
    seconds_[static_cast<size_t>(kind)] += seconds;
  }
  [[nodiscard]] uint64_t seed() const { return seed_; }
  [[nodiscard]] uint64_t rounding_seed() const { return seed_ + (twin_ << 32); }
  [[nodiscard]] const Moment& moment() const { return moment_; }
  void set_moment(const Moment& moment) { moment_ = moment; }

  // Memory of the step --------------------------------------------------------------------------
  [[nodiscard]] Tensor tensor(int64_t rows, int64_t cols, const ElementFormat& element,
                              MemoryKind kind = MemoryKind::activations) {
    return arena_.allocate(rows, cols, element, kind);
  }
  /// Of the shape and type of `other`.
  [[nodiscard]] Tensor tensor_like(const ConstView& other) {
    return arena_.allocate(other.rows, other.cols, *other.element, MemoryKind::activations);
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
  /// In the body of a program: turn(i) for every i below `count`. Turns take the same tensors one
  /// after another and leave none, so that a dry run does one of them, and they share its memory.
  template <class Turn>
  void repeat(int64_t count, const Turn& turn) {
    const size_t mark = arena_.mark();
    for (int64_t i = 0; i < count; ++i) {
      if (i > 0) arena_.return_to(mark);
      if (i > 0 && recording()) return;
      turn(i);
    }
  }
  /// A replay that waits between the turns of its program. While it lives nothing else is recorded
  /// or replayed.
  class OpenReplay {
   public:
    OpenReplay(Run& run, const Program& program) : run_(run) { run.begin_replay(program); }
    ~OpenReplay() { run_.arena_.abandon_replay(); }
    OpenReplay(const OpenReplay&) = delete;
    OpenReplay& operator=(const OpenReplay&) = delete;

    /// One more turn of the program's repeat(), to which what was done before has come.
    template <class Body>
    void turn(const Body& body) {
      if (has_turned_) run_.arena_.return_to(mark_);
      has_turned_ = true;
      mark_ = run_.arena_.mark();
      body();
    }

   private:
    Run& run_;
    bool has_turned_ = false;
    size_t mark_ = 0;
  };

  // Memory of the run ---------------------------------------------------------------------------
  /// Zeroed memory that lives as long as the run, and is registered by `spec`.
  [[nodiscard]] View persistent(const PersistentSpec& spec);
  /// The same of a tensor stored by a cast, whose scales have rows of their own in the register.
  [[nodiscard]] Stored stored(const StoredSpec& what);
  /// Scalars and tables of host types in backend memory, which no checkpoint holds.
  template <class Value>
  [[nodiscard]] Value* persistent_values(std::string name, size_t count,
                                         MemoryKind kind = MemoryKind::state) {
    return reinterpret_cast<Value*>(take(std::move(name), count * sizeof(Value), kind).data());
  }
  /// While it lives what is registered is lent: then it is gone from the register again.
  class Lease {
   public:
    explicit Lease(Run& run) : run_(run), first_(run.persistents_.size()) {}
    ~Lease() { run_.release_from(first_); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

   private:
    Run& run_;
    size_t first_;
  };
  /// Everything that lives as long as the run, in the order in which it was registered.
  [[nodiscard]] const std::vector<Persistent>& persistents() const { return persistents_; }
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
  void show_operand(const PackedOperand& packed, const OperandOrigin& origin,
                    std::string_view layer, std::string_view role) {
    if (operand_observer_ != nullptr && statistics_ && !recording())
      operand_observer_->operand(packed, origin, layer, role);
  }

  // Finding the origin of NaN -------------------------------------------------------------------
  /// How many values are NaN or infinite, as the host sees it: not in a step.
  [[nodiscard]] uint64_t count_nonfinite(const ConstView& values);
  void start_diagnosis();
  /// The first tensor with a non-finite value.
  [[nodiscard]] Diagnosis finish_diagnosis();
  /// While it lives a diagnosis looks at nothing: what comes from other ranks has its origin there.
  class Unexamined {
   public:
    explicit Unexamined(Run& run) : run_(run), was_(std::exchange(run.diagnosing_, false)) {}
    ~Unexamined() { run_.diagnosing_ = was_; }
    Unexamined(const Unexamined&) = delete;
    Unexamined& operator=(const Unexamined&) = delete;

   private:
    Run& run_;
    bool was_;
  };

  /// While it lives, operations are of this layer and, where it is given, of this operand.
  class Place {
   public:
    Place(Run& run, std::string_view layer, std::string_view operand)
        : run_(run), layer_(run.layer_), operand_(run.operand_) {
      run.layer_ = layer;
      run.operand_ = operand;
    }
    ~Place() {
      run_.layer_ = layer_;
      run_.operand_ = operand_;
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    Run& run_;
    std::string_view layer_, operand_;
  };
  [[nodiscard]] Place in(std::string_view layer, std::string_view operand = {}) {
    return {*this, layer, operand};
  }

 private:
  void begin_record();
  [[nodiscard]] Program end_record();
  void begin_replay(const Program& program);
  void end_replay();
  [[nodiscard]] std::span<std::byte> take(std::string name, size_t bytes, MemoryKind kind);
  void release_from(size_t first);
  void examine(const Operation& operation, bool before);
  void examine(const ConstView& values, std::string_view what);

  std::unique_ptr<Backend> backend_;
  uint64_t seed_, twin_;
  RankGroups ranks_;
  Moment moment_;
  TimeByKind seconds_{};
  TimeByKind measured_before_{};  // the last reset
  std::vector<Persistent> persistents_;
  std::unordered_set<std::string> names_;  // of typed persistents
  std::span<std::byte> arena_memory_;
  Arena arena_;
  std::vector<Tensor> saved_;  // destroyed before arena_
  size_t most_saved_ = 0;
  bool saving_ = true;
  bool statistics_ = true;
  bool evaluating_ = false;
  bool diagnosing_ = false;
  OperandObserver* operand_observer_ = nullptr;
  Diagnosis diagnosis_;
  std::string_view layer_, operand_;  // of the operations to come
  uint64_t* nonfinite_ = nullptr;     // persistent counter of count_nonfinite
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
