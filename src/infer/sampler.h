// Picks the next token from logits: greedy, or by temperature, top-k and top-p.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace ng {

struct SamplingSettings {
  double temperature = 0.0;  ///< 0: greedy
  int64_t top_k = 0;         ///< only the k most likely tokens; 0: all
  double top_p = 1.0;        ///< the fewest tokens whose probabilities reach p; 1: all
  int64_t vocab = 0;         ///< only ids below this (a model's may be padded); 0: all
  uint64_t seed = 1;
};

/// Throws Error naming the flag where a setting is out of range.
void validate(const SamplingSettings& settings);

class Sampler {
 public:
  explicit Sampler(const SamplingSettings& settings) : settings_(settings) {}
  /// The token after `position` tokens; the same seed, position and logits give the same token.
  /// Of equal logits the lowest id wins. Throws Error where no logit is finite.
  [[nodiscard]] int32_t pick(std::span<const float> logits, int64_t position);

 private:
  SamplingSettings settings_;
  std::vector<std::pair<double, int32_t>> candidates_;  // (logit, then weight; id)
};

}  // namespace ng
