// Ranks of one process: gradients drawn for each, encoded, added and averaged by the rules that
// training goes by. What studies of communication look at. [recipes.md §4.2; errata-2, 27-34]
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "comm/gradient_sum.h"
#include "recipe/settings.h"
#include "run/run.h"

namespace ng::study {

/// How gradients of ranks are alike.
struct GradientKind {
  std::string_view name;
  double correlation = 0;  ///< of the same element on any two ranks
  double spread = 0;       ///< deviation of ln of an element's size, which all ranks share
};

/// Of each rank e^(spread·z)·(√ρ·c + √(1 - ρ)·n): z, c and n are N(0,1), n of each rank its own.
/// Those of fewer ranks are the first of those of more.
[[nodiscard]] std::vector<std::vector<float>> drawn_gradients(const GradientKind& kind,
                                                              const RandomKey& key, int ranks,
                                                              int64_t size, Threads threads);

/// In FP64, in the order of ranks.
[[nodiscard]] std::vector<double> exact_mean(ValuesByRank gradients);

/// E4M3 with one scale for the tensor: what ranks share.
[[nodiscard]] Operand shared_e4m3(ScaleKind scale);

/// Gradients of all ranks as those that add them decode them.
struct SentGradients {
  std::vector<std::vector<float>> values;  ///< in units of codes where ranks share a scale
  float encode_scale = 1;                  ///< S of a shared scale, else 1
};

struct SimulatedMean {
  std::vector<float> mean;
  /// Codes that are the largest, of how many: those of the running value at its end, or, where the
  /// sum is exact, of all ranks. Of casts with a shared scale. [errata-2, 31]
  int64_t largest = 0, codes = 1;
  [[nodiscard]] double saturated() const {
    return static_cast<double>(largest) / static_cast<double>(codes);
  }
};

/// The wire between ranks, for a tensor of rows × cols.
class SimulatedWire {
 public:
  SimulatedWire(const Operand& cast, int64_t rows, int64_t cols);

  /// `key`: of stochastic casts; each rank's number is its micro-batch.
  [[nodiscard]] SentGradients send(ValuesByRank gradients, const AutoScale& scale = {},
                                   RandomKey key = {});
  [[nodiscard]] SimulatedMean reduce(const SentGradients& sent,
                                     GradientRecipe::Reduce reduce) const;
  /// A mean rounded once more, to nearest with a scale of its own, as all ranks gather it.
  [[nodiscard]] std::vector<float> gathered(std::span<const float> mean);

 private:
  void store(std::span<const float> x, float amax, const RandomKey& key);
  [[nodiscard]] std::vector<float> decoded(bool with_scales) const;

  Run run_;
  Stored stored_;
  GradientDecoder decoder_;
  View floats_;
  float* amax_;
  AutoScale* scale_;
};

}  // namespace ng::study
