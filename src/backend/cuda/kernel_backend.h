// The operations of kernels/perform.h as a backend; what a card's memory and streams are is left to
// who derives from it.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "backend/cuda/kernels/perform.h"
#include "backend/cuda/kind_clock.h"
#include "backend/cuda/product_modes.h"
#include "backend/cuda/route.h"

namespace ng::cuda {

template <class Op>
concept Performed = requires(Stream stream, const Op& op) {
  perform(stream, op);
};
template <class Op>
concept PerformedWithUnits = requires(Stream stream, const Op& op, const WithUnits& with) {
  perform(stream, op, with);
};
template <class Op>
concept PerformedInScratch = requires(Stream stream, const Op& op, const Scratch& scratch) {
  perform(stream, op, scratch);
};

/// Launches that were captured instead of done: a CUDA graph.
class Graph {
 public:
  Graph() = default;
  virtual ~Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Does them all.
  virtual void launch() = 0;
};

class KernelBackend : public Backend {
 public:
  /// A launch of few rows leaves most of a card idle, and the head's weight is read for each piece.
  [[nodiscard]] int64_t logits_bytes() const override { return int64_t{1} << 30; }
  [[nodiscard]] size_t scratch_bytes() const override {
    return scratch_bytes_ + (units_ ? units_->bytes() : 0);
  }
  [[nodiscard]] size_t operand_bytes(const OperandSpec& spec) const override {
    return cuda::operand_bytes(spec);
  }
  [[nodiscard]] bool takes_off_means() const override { return false; }
  [[nodiscard]] SumUnits sum_units(const OperandSpec& a, const OperandSpec& b,
                                   SumOrder sum) const override {
    if (units_ == nullptr) return SumUnits::defined;
    const Route route = choose_route(*units_, {.a = a, .b = b, .sum = sum}).route;
    if (route == Route::kernel || route == Route::int8) return SumUnits::defined;
    return route == Route::bf16 ? SumUnits::fp32 : units_->of_fp8();
  }
  [[nodiscard]] std::vector<ProductMode> product_modes() override {
    return units_ != nullptr ? cuda::product_modes(*units_) : std::vector<ProductMode>();
  }
  void require(const Operation& operation) const override { perform_on(nullptr, operation); }
  void execute(const Operation& operation) override {
    thread_ = std::this_thread::get_id();
    if (live_of(stream()) == nullptr && has_own_stream_)
      clock_.begin(time_of(operation), measured_);
    perform_on(stream(), operation);
  }
  [[nodiscard]] bool measures_seconds() const override { return has_own_stream_; }
  [[nodiscard]] TimeByKind measured_seconds() override {
    end_clock();
    synchronize();
    collect_seconds();
    return seconds_;
  }
  void forget_repeated_steps() override { ++memory_; }
  std::unique_ptr<RepeatedStep> make_repeated_step() override;

 protected:
  explicit KernelBackend(std::unique_ptr<Moments> moments) : clock_(std::move(moments)) {}

  [[nodiscard]] virtual Stream stream() = 0;
  /// Launches from here on are captured; memory is neither taken nor copied until the end.
  virtual void begin_capture() = 0;
  virtual std::unique_ptr<Graph> end_capture() = 0;
  /// Ends it without a graph.
  virtual void abandon_capture() noexcept = 0;
  /// Returns when all has ended that was launched.
  virtual void synchronize() const = 0;
  /// Others say from now on when operations begin, and measure them if they like.
  void leave_own_stream() { has_own_stream_ = false; }
  /// Behind all that was launched: before a copy, which is of no kind, and before the host waits.
  /// Messages of ranks are copied by a thread of their own, which leaves the clock alone.
  void end_clock() const {
    if (is_launching_thread()) clock_.end();
  }
  /// When it has ended.
  void collect_seconds() const {
    if (is_launching_thread()) clock_.collect(seconds_);
  }

  std::byte* scratch_ = nullptr;  ///< of the card's memory
  size_t scratch_bytes_ = size_t{4} << 20;
  std::unique_ptr<Units> units_;  ///< null: products have the bits of ref

 private:
  friend class CapturedStep;

  struct On {
    Stream stream;
    Scratch scratch;
    Units* units;

    template <PerformedWithUnits Op>
    void operator()(const Op& op) const {
      perform(stream, op, WithUnits{units, scratch});
    }
    template <Performed Op>
    void operator()(const Op& op) const {
      perform(stream, op);
    }
    template <PerformedInScratch Op>
    void operator()(const Op& op) const {
      perform(stream, op, scratch);
    }
  };

  /// Of a null stream nothing is touched.
  void perform_on(Stream on, const Operation& operation) const {
    execute_with(On{on, {scratch_, scratch_bytes_}, units_.get()}, name(), operation);
  }

  [[nodiscard]] bool is_launching_thread() const { return thread_ == std::this_thread::get_id(); }

  mutable KindClock clock_;
  std::atomic<std::thread::id> thread_{};  ///< that launches
  mutable TimeByKind seconds_{};
  TimeByKind* measured_ = nullptr;  ///< of a step that is measured
  bool has_own_stream_ = true;
  uint64_t memory_ = 0;  ///< how often that of steps was taken anew
};

/// The first time its operations are executed, the second they are captured, and launched as they
/// were from there on; now and then they are executed again, for their times.
class CapturedStep final : public RepeatedStep {
 public:
  /// `measured_every`: how often it is executed for its times.
  explicit CapturedStep(KernelBackend& backend, int64_t measured_every = 64)
      : backend_(backend),
        measured_every_(measured_every),
        table_(reinterpret_cast<LiveTable*>(backend.allocate(sizeof(LiveTable)))),
        live_(table_) {}
  ~CapturedStep() override {
    backend_.clock_.forget(&measured_);
    backend_.release(reinterpret_cast<std::byte*>(table_), sizeof(LiveTable));
  }
  CapturedStep(const CapturedStep&) = delete;
  CapturedStep& operator=(const CapturedStep&) = delete;

  void run(const StepNumbers& now, const std::function<void()>& operations) override {
    const int64_t before = runs_++;
    if (memory_ != backend_.memory_) graph_ = nullptr;
    // Keys of step 0 may be of that step or of no step.
    const bool may_capture = !live_.is_full() && now.step > 0;
    if (before == 0 || before % measured_every_ == measured_every_ - 1 || (!graph_ && !may_capture))
      return measure(operations);
    if (!graph_) capture(now.step, operations);
    if (!graph_) return measure(operations);
    const std::vector<std::byte> table = live_.filled(now);
    backend_.upload(reinterpret_cast<std::byte*>(table_), table.data(), table.size());
    backend_.clock_.begin_mixed(&measured_);
    graph_->launch();
    backend_.clock_.end();
  }

 private:
  void measure(const std::function<void()>& operations) {
    backend_.clock_.end();
    measured_ = {};
    const Set<TimeByKind*> measuring(backend_.measured_, &measured_);
    operations();
  }
  /// Leaves no graph where that could not be done again.
  void capture(uint32_t step, const std::function<void()>& operations) {
    live_.start(step);
    backend_.begin_capture();
    try {
      const Set<Live*> capturing(backend_.stream()->live, &live_);
      operations();
    } catch (...) {
      backend_.abandon_capture();
      throw;
    }
    std::unique_ptr<Graph> graph = backend_.end_capture();
    memory_ = backend_.memory_;
    if (!live_.is_full()) graph_ = std::move(graph);
  }

  /// While it lives a variable has another value.
  template <class T>
  class Set {
   public:
    Set(T& what, T value) : what_(what), was_(std::exchange(what, value)) {}
    ~Set() { what_ = was_; }
    Set(const Set&) = delete;
    Set& operator=(const Set&) = delete;

   private:
    T& what_;
    T was_;
  };

  KernelBackend& backend_;
  int64_t measured_every_;
  LiveTable* table_;
  Live live_;
  TimeByKind measured_{};
  int64_t runs_ = 0;
  uint64_t memory_ = 0;  ///< the backend's when the graph was captured
  std::unique_ptr<Graph> graph_;
};

inline std::unique_ptr<RepeatedStep> KernelBackend::make_repeated_step() {
  return std::make_unique<CapturedStep>(*this);
}

}  // namespace ng::cuda
