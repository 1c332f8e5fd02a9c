// What the values of a tensor of a file are like.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "base/threads.h"
#include "io/safetensors.h"

namespace ng {

/// Values by their binades: count[e + 149] of |x| in [2^e, 2^(e+1)), zeros apart.
struct Binades {
  static constexpr int kLowest = -149;
  std::array<uint64_t, 277> count{};

  [[nodiscard]] uint64_t at(int e) const { return count[static_cast<size_t>(e - kLowest)]; }
};

/// Statistics of the finite values, in FP64.
struct TensorFacts {
  uint64_t values = 0, zeros = 0, nan = 0, inf = 0;
  double min = 0, max = 0;  ///< 0 where no value is finite
  double sum = 0, squares = 0;
  Binades binades;

  [[nodiscard]] uint64_t finite() const { return values - nan - inf; }
  [[nodiscard]] double amax() const;
  [[nodiscard]] double mean() const;
  [[nodiscard]] double rms() const;
};

/// How far a pass over a tensor has come, from 0 to 1.
using TensorProgress = std::function<void(double share)>;

[[nodiscard]] TensorFacts facts_of(const io::SafetensorsEntry& entry, Threads threads,
                                   const TensorProgress& progress);

}  // namespace ng
