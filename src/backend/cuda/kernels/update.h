// One step of an optimizer on one tensor whose weights and moments lie in FP32.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/element_cast.h"
#include "backend/optimizer_rule.h"

namespace ng::cuda {

/// `rows` x `cols` values each, side by side.
struct UpdatedTensors {
  float* weight = nullptr;    ///< the weight itself, or its master; null: `value` is all there is
  uint16_t* value = nullptr;  ///< codes of 16 bits: made of the master, or the weight; null: none
  float* moment1 = nullptr;
  float* moment2 = nullptr;
  const float* grad = nullptr;
  int64_t rows = 0, cols = 0;
};

/// The numbers of a step: any rule but adam_mini.
struct OptimizerStep {
  OptimizerRule rule = OptimizerRule::adamw;
  OptimizerNumbers numbers;
  float grad_scale = 1;
};

/// `value_cast` rounds the new weight into `value`; without `weight` it is w + lr·u that is
/// rounded: UpdateRule::nearest or stochastic. The bits of `ref`'s Update.
void update(Stream stream, const UpdatedTensors& tensors, const OptimizerStep& step,
            const ElementCast& value_cast);

}  // namespace ng::cuda
