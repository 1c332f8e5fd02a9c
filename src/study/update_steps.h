// Parts of study update: what is moved along what, one step at every learning rate, and 200 steps.
#pragma once

#include <string>
#include <vector>

#include "study/moved_weight.h"
#include "study/step_metrics.h"
#include "study/study.h"

namespace ng::study {

/// A matrix and where its updates point.
struct UpdateSubject {
  std::string weights;    ///< "N(0,1)", or a tensor's name
  std::string direction;  ///< the same of the direction
  int64_t rows = 0, cols = 0;
  std::vector<float> w;  ///< before it is rounded to a format
  std::vector<float> u;
  bool is_random = true;  ///< both are what the specification's figures are of
};
/// N(0,1) of 1024 × 1024, or the user's tensor. Throws Error for one that is no matrix of finite
/// floats.
[[nodiscard]] UpdateSubject update_subject(const Settings& settings);

inline constexpr float kUpdateRates[] = {1e-1f, 1e-2f, 1e-3f, 1e-4f, 1e-5f,
                                         1e-6f, 1e-7f, 1e-8f, 1e-9f, 1e-10f};
[[nodiscard]] Names update_rate_names();

/// How u lies to w.
enum class DirectionKind : uint8_t {
  independent,
  unrounded,  ///< the numbers that w was rounded from: source 000 drew both with one key
  equal,      ///< w itself
};

/// One step of one format: by way and learning rate.
struct OneStep {
  std::vector<std::vector<StepMetrics>> found;  ///< [ways][rates]; carries count
  std::vector<StepMetrics> expected;            ///< [rates] of stochastic, exactly
  std::vector<double> alpha;                    ///< [rates] of precision_aware, over lr
};
[[nodiscard]] OneStep one_step(const UpdateSubject& subject, const WeightFormat& format,
                               DirectionKind kind, const Settings& settings, Progress& progress);

/// 200 steps along a fixed direction with noise of three times its size.
[[nodiscard]] Section trajectory_section(const UpdateSubject& subject, const Settings& settings,
                                         Progress& progress);
inline constexpr int64_t kTrajectorySteps = 200;

}  // namespace ng::study
