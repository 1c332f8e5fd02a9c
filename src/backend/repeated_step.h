// What comes again in every step: a backend whose launches cost time keeps them and does them again
// without being told.
#pragma once

#include <cstdint>
#include <functional>

namespace ng {

/// What changes from step to step though the operations stay the same.
struct StepNumbers {
  uint32_t step = 0;                               ///< of random keys
  float lr = 0, correction1 = 1, correction2 = 1;  ///< of OptimizerNumbers
  float loss_scale = 1;                            ///< of CrossEntropy
};

/// Operations that are the same in each step but for StepNumbers: same tensors, same order.
class RepeatedStep {
 public:
  RepeatedStep() = default;
  virtual ~RepeatedStep() = default;
  RepeatedStep(const RepeatedStep&) = delete;
  RepeatedStep& operator=(const RepeatedStep&) = delete;

  /// `operations` executes them with the numbers `now`, and neither reads nor writes the backend's
  /// memory otherwise. It is called, or what it did before is done again with the numbers of now:
  /// keys that had the step of then have now.step, those of another keep it.
  virtual void run(const StepNumbers& /* now */, const std::function<void()>& operations) {
    operations();
  }
};

}  // namespace ng
