// How one number becomes a code of an element format under every rounding, step by step.
// [formats.md §2]
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "format/codec.h"

namespace ng {

/// One deterministic rounding and what it gives under both overflow policies.
struct RoundedBy {
  std::string_view mode;  ///< "nearest even", ...
  std::string_view rule;  ///< when it goes to n + 1
  bool up = false;
  uint32_t saturate = 0;  ///< codes
  uint32_t special = 0;
};

/// Stochastic rounding with r bits: F of the 2^r draws go up.
struct StochasticOdds {
  int bits = 0;
  uint64_t ups = 0;        ///< F
  double expectation = 0;  ///< of the value, over all draws, saturating
};

/// A finite or other FP32 number on its way into a format. Steps beyond the codes have a meaning
/// only where `on_grid`.
struct RoundingSteps {
  const ElementFormat* format = nullptr;
  float x = 0;
  bool on_grid = false;  ///< finite, not zero, and not what the format has no number for
  int e = 0;             ///< max(floor(log2 |x|), 1 - bias); unused for integers
  int q = 0;             ///< values around x are 2^q apart
  uint32_t significand = 0;
  int shift = 0;     ///< t = |x| / 2^q = significand · 2^-shift
  double t = 0;      ///< exact
  double n = 0;      ///< floor(t)
  double f = 0;      ///< t - n
  double below = 0;  ///< n · 2^q with x's sign; above: (n + 1) · 2^q, whether in the format or not
  double above = 0;
  std::vector<RoundedBy> modes;
  std::array<StochasticOdds, 3> stochastic;
  bool floors = false;     ///< stochastic rounding is floor(x + R·2^-r), not of the magnitude
  float through_bf16 = 0;  ///< x rounded to BF16
  uint32_t code_through_bf16 = 0;  ///< and that to the format, to nearest
};

[[nodiscard]] RoundingSteps rounding_steps(const ElementFormat& format, float x);

}  // namespace ng
