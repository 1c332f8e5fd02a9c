// How fast the cpu backend's GEMM is in each format, at the shapes of training.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/threads.h"

namespace ng {

/// y (m, n) = A (m, k) · B (n, k)ᵀ
struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
};

/// The three GEMMs of linear layers 384 and 768 wide, for 512 to 2,048 tokens.
[[nodiscard]] std::vector<GemmShape> training_shapes();

struct GemmRun {
  Threads threads;
  /// Of both operands; NAME/RxC: blocks of the right one; NAME/tile32: summed as matrix tiles do.
  std::vector<std::string> formats;
  int rounds = 5;  ///< of all formats in turns; the best counts
};

class GemmSpeed {
 public:
  explicit GemmSpeed(GemmRun run) : run_(std::move(run)) {}

  /// Seconds of one GEMM, operands already made, for each format.
  [[nodiscard]] std::vector<double> seconds(const GemmShape& shape);

 private:
  GemmRun run_;
  std::vector<float> left_, right_;  ///< normal values, enough for the largest shape so far
};

}  // namespace ng
