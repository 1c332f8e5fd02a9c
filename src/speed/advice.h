// How fast a model would train here in each recipe, told from the times of operations instead of
// whole runs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "speed/operation_times.h"

namespace ng {

/// A recipe's step as it is predicted.
struct Advice {
  std::string recipe;
  bool is_known = false;  ///< false: there was no time to measure its operations, or `problem`
  std::string problem;    ///< why the model cannot be trained in it
  TimeByKind seconds{};   ///< of a step
  size_t bytes = 0;       ///< planned memory
  double tokens_per_second = 0;
  bool has_fp4 = false;  ///< operands of four bits among the GEMMs of its first phase
};

/// A block of that width and a head of its own, in two recipes.
struct WidthAdvice {
  int64_t width = 0;
  double wide_seconds = 0, narrow_seconds = 0;
};

struct AdviceSettings {
  BenchShape shape{.steps = 1, .warmup = 0};
  double seconds = 30;  ///< after which nothing more is measured
  std::function<std::unique_ptr<Backend>()> backend;
  std::function<void(int64_t done, int64_t total)> progress;
};

/// Of each recipe in its first phase. Operations are timed in steps of models of the same width
/// with few blocks, and where the head's are known, with few tokens; each is timed once, in
/// whichever recipe it comes first.
[[nodiscard]] std::vector<Advice> advise(OperationTimes& times, const ModelConfig& model,
                                         const std::vector<std::string>& recipes,
                                         const AdviceSettings& settings);

/// A block in `wide` and in `narrow`, at widths that halve and double the model's, as long as there
/// is time; by width.
[[nodiscard]] std::vector<WidthAdvice> advise_widths(OperationTimes& times,
                                                     const ModelConfig& model,
                                                     const std::string& wide,
                                                     const std::string& narrow,
                                                     AdviceSettings settings);

/// The least width from which on `narrow` is faster at all that were timed; 0: at none.
[[nodiscard]] int64_t pays_from(const std::vector<WidthAdvice>& widths);

}  // namespace ng
