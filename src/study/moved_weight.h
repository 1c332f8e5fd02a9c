// A weight that is stored in few bits and moved along given directions by one of the ways of
// recipes.md §5: what the studies of updates look at.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "run/run.h"

namespace ng::study {

/// As what a weight is stored.
struct WeightFormat {
  std::string_view name;  ///< "E4M3, pow2 scale"
  Operand cast;
};
/// E4M3 without and with a scale of the tensor, FP16, BF16: those of source 000, and the recipes'.
[[nodiscard]] std::span<const WeightFormat> weight_formats();

/// How an update goes into a weight.
struct UpdateWay {
  std::string_view name;
  UpdateRule rule = UpdateRule::nearest;
  const char* carry = nullptr;  ///< element of what is kept beside the weight; null: nothing
  bool is_wide = false;         ///< the weight is FP32 instead, as a master would be
  StepSearch search = StepSearch::norms;  ///< of precision_aware
};
/// precision_aware as source 000 prints its search.
inline constexpr std::string_view kAsPrinted = "as printed";

/// Every rule that takes a bare direction (momentum_feedback wants a moment), then FP32.
[[nodiscard]] std::span<const UpdateWay> update_ways();
[[nodiscard]] const UpdateWay& update_way(std::string_view name);

/// Matrices are row-major without gaps.
class MovedWeight {
 public:
  MovedWeight(const WeightFormat& format, const UpdateWay& way, int64_t rows, int64_t cols,
              Threads threads);

  /// Rounds `w` to nearest into it, with a fresh scale; nothing is carried.
  void put(std::span<const float> w);
  /// w <- w + lr·u by the rule. `key`: seed, tensor and step of its draws.
  void step(std::span<const float> u, float lr, const RandomKey& key);
  /// What the last step did, as the backend counts it: of what is stored, without the carry.
  [[nodiscard]] UpdateReport report() const;

  [[nodiscard]] std::vector<float> values();
  /// What weight and carry stand for together: w - c of kahan, w + c of residual, else w.
  [[nodiscard]] std::vector<double> whole();
  /// Values are stored as element / this; 1 where nothing is scaled.
  [[nodiscard]] float encode_scale() const;
  [[nodiscard]] const Operand& cast() const { return value_.cast; }

 private:
  [[nodiscard]] std::vector<float> decoded(const ConstView& stored);

  Run run_;
  UpdateWay way_;
  Stored value_;
  View carry_, floats_;
  UpdateReport* report_;
};

}  // namespace ng::study
