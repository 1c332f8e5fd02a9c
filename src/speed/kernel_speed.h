// How many elements a second those kernels of a backend take that are no GEMMs: casts, noise,
// gradients between ranks, layers; beside a copy and a read of the same matrix in the same run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace ng {

/// What is measured: normally distributed FP32 matrices of rows × cols.
struct SpeedRun {
  Threads threads;
  /// Null: cpu, which has kernels for casts back and for parts of casts beside its operations.
  std::function<std::unique_ptr<Backend>()> backend = {};
  int64_t rows = 0;
  int64_t cols = 0;
  int rounds = 5;      ///< of all kernels in turns, so that all see the same neighbours
  std::string filter;  ///< only kernels whose names contain it; the limits are always measured
};

struct KernelSpeed {
  std::string name;
  double elements_per_second = 0;  ///< in the best round
  double bytes_per_second = 0;     ///< read once and written once
  double flops_per_second = 0;     ///< of attention; 0: a stream
};

/// The first two are "copy" (FP32 to FP32) and "read" (the largest magnitude).
[[nodiscard]] std::vector<KernelSpeed> kernel_speeds(const SpeedRun& run);

}  // namespace ng
