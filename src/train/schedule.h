// The learning rate as a function of the step. [recipes.md §6]
#pragma once

#include <cstdint>

namespace ng {

enum class ScheduleKind : uint8_t { cosine, linear, wsd, constant };

/// How wsd falls in its last part: along a line, or as 1 - √x.
enum class DecayShape : uint8_t { linear, sqrt };

struct Schedule {
  ScheduleKind kind = ScheduleKind::cosine;
  int64_t steps = 0;            ///< n
  int64_t warmup = 0;           ///< w: steps before the full rate; may exceed `steps`
  double lr = 0;                ///< the largest rate
  double min_lr = 0;            ///< what cosine, linear and wsd fall towards
  double decay_fraction = 0.2;  ///< wsd: the last part of all steps
  DecayShape decay_shape = DecayShape::linear;
};

/// Rate of step t, counted from 0:
///   t < w            lr · (t + 1) / (w + 1)
///   cosine, linear   min + (lr - min) · f(x), x = (t - w) / (n - w), f = ½(1 + cos πx) or 1 - x
///   wsd              lr up to the last max(1, round(fraction · n)) steps (never into the warm-up),
///                    then with x = (steps into the decay) / (its length), f = 1 - x or 1 - √x
///   constant         lr
/// Steps at or after n stay at `min_lr` (constant: lr). The bits are the same on every machine.
[[nodiscard]] double learning_rate(const Schedule& schedule, int64_t step);

}  // namespace ng
