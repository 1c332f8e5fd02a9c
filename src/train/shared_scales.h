// Scales of whole tensors whose rows or columns are updated apart, by several ranks or in several
// pieces by one: they are made of what all parts store. [distributed.md §3; errata-2, 14]
#pragma once

#include <cstdint>
#include <vector>

#include "model/model.h"
#include "optim/optimizer.h"

namespace ng {

class SharedScales {
 public:
  /// Called by all ranks.
  SharedScales(Run& run, Model& model, const Optimizer& optimizer);

  /// Before the first update of a step, by all ranks: what scales are made of.
  void find(const OptimizerStep& step);
  /// Updates what this rank owns of a parameter. Reports follow one another from step.report on,
  /// which moves past them.
  void update(size_t index, OptimizerStep& step);
  /// After the last one.
  void forget() { maxima_ = {}; }

 private:
  [[nodiscard]] UpdateMaxima* place_of(size_t index);

  Run& run_;
  Model& model_;
  const Optimizer& optimizer_;
  std::vector<size_t> shared_;  // parameters that any rank has a part of, with such a scale
  bool has_own_ = false;        // this rank has
  Tensor maxima_;               // by shared_
};

}  // namespace ng
