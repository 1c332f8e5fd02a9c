// Training steps written out for comparison with other programs: logits, loss, gradients, weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/model.h"
#include "recipe/recipe.h"
#include "run/run.h"
#include "train/trainer.h"

namespace ng {

struct TraceSettings {
  OptimizerSettings optimizer;
  double lr = 1e-3;
  double clip = 1.0;
  int64_t steps = 0;  ///< at most those of the tokens; 0: all of them
};

/// Trains on the batches of `tokens_file`, whose tensor `tokens` is (steps, B, T + 1) in I32 or I64
/// (inputs [:, :T], targets [:, 1:]), at a constant rate, and writes to `out_file`:
///   logits (B, T, V), loss (1)      of the first step, before its update
///   grad.<name>                     of the first step, before clipping
///   step<n>.<name>                  weights after steps n = 1, 2, ...
///   train.loss, train.grad_norm     of every step
/// Names and layouts are those of Hugging Face. Returns the steps, counted from 1, that were
/// skipped as not finite. Throws Error for tokens that do not fit the model.
std::vector<int64_t> write_trace(Run& run, Model& model, const Recipe& recipe,
                                 const std::string& tokens_file, const std::string& out_file,
                                 const TraceSettings& settings);

}  // namespace ng
