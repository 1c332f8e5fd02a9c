#include "io/gguf/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "base/error.h"
#include "base/json.h"

namespace ng::io {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

/// Radians per position, the highest first.
std::vector<float> frequencies_of(const ModelConfig& config) {
  std::vector<float> frequencies;
  const auto dim = static_cast<float>(config.head_dim);
  for (int64_t i = 0; i < config.head_dim; i += 2) {
    const double power = std::pow(double{config.rope_theta}, double{static_cast<float>(i) / dim});
    frequencies.push_back(1.0f / static_cast<float>(power));
  }
  return frequencies;
}

float factor_of(const RopeScaling& by, float frequency) {
  const auto context = static_cast<float>(by.original_context);
  const float length = static_cast<float>(kTwoPi) / frequency;
  if (double{length} < static_cast<double>(by.original_context) / by.high_freq_factor) return 1;
  const auto factor = static_cast<float>(by.factor);
  if (double{length} > static_cast<double>(by.original_context) / by.low_freq_factor) return factor;
  const float smooth = (context / length - static_cast<float>(by.low_freq_factor)) /
                       static_cast<float>(by.high_freq_factor - by.low_freq_factor);
  return 1.0f / ((1.0f - smooth) / factor + smooth);
}

std::vector<float> factors_of(const RopeScaling& by, const std::vector<float>& frequencies) {
  std::vector<float> factors;
  for (const float frequency : frequencies) factors.push_back(factor_of(by, frequency));
  return factors;
}

/// How much of a frequency stays, as a line of the frequency: 0 at `none`, 1 at `all`.
struct Blend {
  double none = 0, all = 0;
};

/// The line through what is between 1 and the last factor.
class BlendOfFactors {
 public:
  BlendOfFactors(const std::vector<float>& frequencies, const std::vector<float>& factors)
      : largest_(factors.back()) {
    for (size_t i = 0; i < factors.size(); ++i) {
      const double stays = (1.0 / factors[i] - 1.0 / largest_) / (1.0 - 1.0 / largest_);
      if (factors[i] == 1)
        unscaled_ = frequencies[i];
      else if (factors[i] < largest_)
        between_.push_back({frequencies[i], stays});
      else if (scaled_ == 0)
        scaled_ = frequencies[i];
    }
  }

  /// What a scaling of so many turns would have for its original context; it is between two where
  /// no factor tells.
  [[nodiscard]] double context(double low, double high) const {
    if (!between_.empty()) {
      const auto& [frequency, stays] = between_.front();
      return (low + stays * (high - low)) * kTwoPi / frequency;
    }
    const double most = low * kTwoPi / scaled_;
    return unscaled_ > 0 ? std::sqrt(most * high * kTwoPi / unscaled_) : most;
  }

  /// Of two points; with one the flattest line that leaves the others what they are.
  [[nodiscard]] std::optional<Blend> line() const {
    if (between_.empty()) return {};
    const auto [frequency, stays] = between_.front();
    double slope = between_.size() == 1
                       ? stays / (frequency - scaled_)
                       : (stays - between_.back().stays) / (frequency - between_.back().frequency);
    if (between_.size() == 1 && unscaled_ > 0)
      slope = std::max(slope, (1 - stays) / (unscaled_ - frequency));
    const double none = frequency - stays / slope;
    return Blend{.none = none, .all = none + 1 / slope};
  }

 private:
  struct Point {
    double frequency, stays;
  };
  double largest_;
  std::vector<Point> between_;
  double scaled_ = 0;    ///< the highest frequency that is; the last is
  double unscaled_ = 0;  ///< the lowest that is not; 0: all are
};

/// To what the converter rounds in FP32.
bool are_close(const std::vector<float>& a, const std::vector<float>& b) {
  constexpr float kError = 1e-5f;
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](float x, float y) { return std::fabs(x - y) <= kError * y; });
}

/// Factors that do not fall, of 1 or more.
bool are_factors(const std::vector<float>& factors) {
  return !factors.empty() && factors.front() >= 1 && std::isfinite(factors.back()) &&
         std::is_sorted(factors.begin(), factors.end());
}

std::optional<RopeScaling> scaling_of(const std::vector<float>& factors,
                                      const std::vector<float>& frequencies) {
  constexpr double kMostTokens = 1 << 30;
  const BlendOfFactors blend(frequencies, factors);
  RopeScaling scaling{.factor = factors.back()};
  const auto fits = [&](double context) {
    if (!(context >= 1 && context <= kMostTokens)) return false;
    scaling.original_context = std::llround(context);
    return are_close(factors_of(scaling, frequencies), factors);
  };
  if (fits(blend.context(scaling.low_freq_factor, scaling.high_freq_factor))) return scaling;
  const std::optional<Blend> line = blend.line();
  if (!line || !(line->none > 0 && line->all > line->none)) return {};
  const double context = std::round(std::min(kTwoPi / line->none, kMostTokens));
  scaling.low_freq_factor = context * line->none / kTwoPi;
  scaling.high_freq_factor = context * line->all / kTwoPi;
  if (fits(context)) return scaling;
  return {};
}

}  // namespace

bool has_rope_factors(Architecture architecture) {
  return architecture == Architecture::llama || architecture == Architecture::mistral;
}

std::vector<float> gguf_rope_factors(const ModelConfig& config) {
  if (config.rope_scaling.original_context == 0) return {};
  return factors_of(config.rope_scaling, frequencies_of(config));
}

RopeScaling read_gguf_rope(const Gguf& file, const ModelConfig& config) {
  const SafetensorsEntry* entry = file.find(kGgufRopeFactors);
  if (entry == nullptr || !has_rope_factors(config.architecture)) return {};
  const std::string key = json_text(Json(kGgufRopeFactors));
  if (entry->dtype != "F32" || entry->shape != std::vector<int64_t>{config.head_dim / 2})
    file.refuse(key, fmt::format("{} of shape {}", entry->dtype, json_text(entry->shape)),
                fmt::format("F32 [{}], one of each frequency", config.head_dim / 2));
  const std::vector<float> factors = to_floats(*entry);
  if (!are_factors(factors))
    file.refuse(key, "is no list of factors", "factors of 1 or more that do not fall");
  if (factors.back() == 1) return {};
  const std::optional<RopeScaling> scaling = scaling_of(factors, frequencies_of(config));
  if (!scaling) file.refuse(key, "is no scaling of Llama 3's kind", "factors as Llama 3 has them");
  return *scaling;
}

}  // namespace ng::io
