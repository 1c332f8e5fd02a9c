// One parameter by itself, moved as training moves it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/weights.h"
#include "optim/optimizer.h"
#include "run/run.h"

namespace ng {

/// A tensor of the parameter that persists.
struct NamedState {
  std::string name;  ///< "weight", "master", "moment1", "residual", ...
  Stored tensor;
};

/// A parameter with its weight and states in a run that has no other.
class TensorUpdate {
 public:
  struct Setup {
    ParameterSpec spec;
    uint32_t tensor_id = 0;
    WeightStorage storage;
    /// Null: gradients are directions.
    const Optimizer* optimizer = nullptr;
  };
  TensorUpdate(Run& run, const Setup& setup);

  [[nodiscard]] const Parameter& parameter() const { return parameter_; }
  /// Value, master, the optimizer's states and the carry, in this order, as far as there are any.
  [[nodiscard]] const std::vector<NamedState>& states() const { return states_; }
  /// Null where there is none of this name.
  [[nodiscard]] const NamedState* find(std::string_view name) const;
  /// Whether the weight keeps what rounding left in units of its ulp.
  [[nodiscard]] bool has_residual() const;

  /// The next update reads these values of a moment in place of those that are stored, and stores
  /// what it makes of them: of casts that would not leave such values as they are.
  void give(const NamedState& moment, std::span<const float> values);
  /// One update by a gradient, or along a direction, r · c values.
  UpdateReport step(float lr, int64_t step, std::span<const float> moves);
  /// The same bits, of which nobody is told: the faster ways of the backend.
  void move(float lr, int64_t step, std::span<const float> moves);
  /// The same of a gradient in the backend's memory, FP32 or BF16: no value comes back to the host,
  /// and what goes beyond its format stays in overflowing() until forget_overflow().
  void move_there(float lr, int64_t step, const ConstView& gradient);
  /// "moment2": what the last step put beyond the range of its format, for which training would
  /// have skipped it; empty: nothing.
  [[nodiscard]] std::string overflowing() const;
  void forget_overflow();
  /// Steps to come are those of another optimizer of the same kind, with the same states.
  void follow(const Optimizer& optimizer) { optimizer_ = &optimizer; }

 private:
  /// Puts what moves the weight into a gradient.
  using Put = std::function<void(const View& gradient)>;
  /// What replays: `report` null, where nobody asks. `measures`: the host may wait for the norm.
  void update(float lr, int64_t step, const Put& put, UpdateReport* report, bool measures);
  void replay(float lr, int64_t step, const Put& put, UpdateReport* report, bool measures);
  [[nodiscard]] Put uploaded(std::span<const float> moves);
  /// Puts the norm of what moves the weight where CheckUpdate reads it, which then rarely has to
  /// look at values.
  void measure(const View& gradient);
  void store_given();
  void plan();
  [[nodiscard]] Update along(const View& direction, float lr, int64_t step,
                             UpdateReport* report) const;

  Run& run_;
  Parameter parameter_;
  const Optimizer* optimizer_;
  std::vector<NamedState> states_;
  /// Moments of the parameter that are FP32 until the next update, and as what they are stored.
  std::vector<std::pair<Stored*, Stored>> given_;
  UpdateReport* report_;
  double* sum_of_squares_;
  StepControl* control_;  ///< what CheckUpdate finds; nothing is skipped for it
  Program program_;
};

}  // namespace ng
