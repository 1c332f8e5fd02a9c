#include "train/schedule.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "math/sincos.h"

namespace ng {
namespace {

/// First step of wsd's decay.
int64_t decay_start(const Schedule& s) {
  const auto length = int64_t(std::llround(s.decay_fraction * double(s.steps)));
  return std::max(s.steps - std::max<int64_t>(length, 1), s.warmup);
}

/// Share of the way from `first` to the last step that `step` has gone, in [0, 1].
double progress(int64_t step, int64_t first, int64_t steps) {
  if (step <= first) return 0;
  return step >= steps ? 1 : double(step - first) / double(steps - first);
}

/// What is left of lr - min_lr.
double share_left(const Schedule& s, int64_t step) {
  switch (s.kind) {
    case ScheduleKind::cosine: {
      const double x = progress(step, s.warmup, s.steps);
      return x >= 1 ? 0 : 0.5 * (1 + math::sincos_turns(x / 2).cos);
    }
    case ScheduleKind::linear:
      return 1 - progress(step, s.warmup, s.steps);
    case ScheduleKind::wsd: {
      const double x = progress(step, decay_start(s), s.steps);
      return 1 - (s.decay_shape == DecayShape::sqrt ? std::sqrt(x) : x);
    }
    case ScheduleKind::constant:
      break;
  }
  return 1;
}

}  // namespace

double learning_rate(const Schedule& s, int64_t step) {
  NG_CHECK(step >= 0 && s.steps >= 1 && s.warmup >= 0, step, s.steps, s.warmup);
  if (step < s.warmup) return s.lr * double(step + 1) / double(s.warmup + 1);
  return s.min_lr + (s.lr - s.min_lr) * share_left(s, step);
}

}  // namespace ng
