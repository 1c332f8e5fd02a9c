// Gradients that travel between ranks in few bits: each rank sends its own, rounded by a scale that
// all share, their owners take the mean in FP32, and scales follow what saturates. [recipes.md
// §4.2; errata-2, 27-33]
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/model.h"
#include "run/run.h"

namespace ng {

class GradientWires {
 public:
  /// Of the parameters that the recipe sends otherwise than in FP32.
  GradientWires(Run& run, Model& model);

  /// The gradients of all ranks become their mean in model.owned(). Called by all ranks.
  void exchange();
  /// After the step was decided: scales that saturate give way, by the counts of all ranks.
  void move_scales(const StepControl* control);

 private:
  [[nodiscard]] std::vector<size_t> sent() const;
  void find_amax(std::span<const size_t> indices);
  void send(size_t index);
  void take_mean(size_t index, const std::vector<Tensor>& means);

  Run& run_;
  Model& model_;
  std::span<float> amax_;            // backend memory, by parameter; of all ranks
  std::vector<uint64_t> saturated_;  // by parameter, as this rank counted them
};

}  // namespace ng
