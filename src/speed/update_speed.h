// How many weights a second the cpu backend updates, by rule and storage, beside a copy and an
// addition of FP32 matrices in the same run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/threads.h"

namespace ng {

/// What is measured: updates of a weight of rows × cols.
struct UpdateSpeedRun {
  Threads threads;
  int64_t rows = 0;
  int64_t cols = 0;
  int rounds = 5;      ///< of each update; the best counts
  std::string filter;  ///< only updates whose names contain it; the limits are always measured
};

struct UpdateSpeed {
  std::string name;
  double elements_per_second = 0;  ///< in the best round
  /// What every update must read and write of each element: weight, carry, master and moments both
  /// ways (a working copy beside a master is only written), the gradient once, all with their
  /// scales. What Muon's products read and write is not in it.
  double bytes_per_element = 0;
  [[nodiscard]] double bytes_per_second() const { return elements_per_second * bytes_per_element; }
};

struct UpdateSpeeds {
  UpdateSpeed copy;  ///< y = x, of as many bytes as AdamW's in FP32
  UpdateSpeed add;   ///< y = y + x, which writes where it has read, as updates do
  /// The first is AdamW in FP32, which is always measured.
  std::vector<UpdateSpeed> updates;

  /// The most bytes a second that were read and written.
  [[nodiscard]] double bandwidth() const;
};

/// Throws Error where no update's name contains the filter.
[[nodiscard]] UpdateSpeeds update_speeds(const UpdateSpeedRun& run);

}  // namespace ng
