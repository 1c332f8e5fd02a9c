#include "study/diffq_original.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "math/exp.h"
#include "math/log.h"
#include "math/weight_noise.h"

namespace ng::study {
namespace {

constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr double kBitsOfMegabyte = 8.0 * 1024 * 1024;
constexpr double kSpan = OriginalDiffq::kMostBits - OriginalDiffq::kFewestBits;
constexpr double kBitsOfRange = 64;     // min and max in FP32
constexpr double kBitsOfBitWidths = 8;  // says how many bits a stored b takes

double power_of_two(double b) { return math::exp(b * kLn2); }

}  // namespace

OriginalDiffq::OriginalDiffq(std::span<const float> w, std::span<const double> logits,
                             int64_t group)
    : w_(w.begin(), w.end()), group_(static_cast<size_t>(group)) {
  NG_CHECK(group > 0 && logits.size() * group_ == w.size(), w.size(), logits.size(), group);
  argmin_ = static_cast<size_t>(std::min_element(w_.begin(), w_.end()) - w_.begin());
  argmax_ = static_cast<size_t>(std::max_element(w_.begin(), w_.end()) - w_.begin());
  range_ = w_[argmax_] - w_[argmin_];
  NG_CHECK(range_ > 0, range_);
  for (const double l : logits) {
    bits_.push_back(kFewestBits + kSpan * sigmoid(l));
    steps_.push_back(range_ / (power_of_two(bits_.back()) - 1));
  }
}

double OriginalDiffq::logit_of(double bits) {
  NG_CHECK(bits > kFewestBits && bits < kMostBits, bits);
  return math::log((bits - kFewestBits) / (kMostBits - bits));
}

std::vector<double> OriginalDiffq::noisy(std::span<const double> n) const {
  NG_CHECK(n.size() == w_.size(), n.size(), w_.size());
  std::vector<double> result = w_;
  for (size_t i = 0; i < result.size(); ++i) result[i] += step(i) * n[i];
  return result;
}

double OriginalDiffq::bits_by_logit(size_t g) const {
  const double share = (bits_[g] - kFewestBits) / kSpan;
  return kSpan * share * (1 - share);
}

DiffqGradients OriginalDiffq::gradients(std::span<const double> dw_hat,
                                        std::span<const double> n) const {
  NG_CHECK(n.size() == w_.size() && dw_hat.size() == w_.size(), n.size(), dw_hat.size());
  DiffqGradients d{.w = {dw_hat.begin(), dw_hat.end()},
                   .logits = std::vector<double>(bits_.size())};
  double by_range = 0;
  for (size_t i = 0; i < w_.size(); ++i) {
    const size_t g = i / group_;
    const double by_step = dw_hat[i] * n[i];
    by_range += by_step * (step(i) / range_);
    const double power = power_of_two(bits_[g]);
    const double step_by_bits = -kLn2 * power * range_ / ((power - 1) * (power - 1));
    d.logits[g] += by_step * step_by_bits * bits_by_logit(g);
  }
  d.w[argmax_] += by_range;
  d.w[argmin_] -= by_range;
  return d;
}

double OriginalDiffq::size_mb() const {
  double weights = 0, most = 0;
  for (const double b : bits_) {
    weights += static_cast<double>(group_) * b;
    most = std::max(most, b);
  }
  const double stored = std::ceil(std::log2(1 + std::nearbyint(most) - kFewestBits));
  const double all =
      weights + kBitsOfRange + kBitsOfBitWidths + stored * static_cast<double>(bits_.size());
  return all / kBitsOfMegabyte;
}

std::vector<double> OriginalDiffq::size_gradient() const {
  std::vector<double> gradient(bits_.size());
  for (size_t g = 0; g < gradient.size(); ++g)
    gradient[g] = static_cast<double>(group_) * bits_by_logit(g) / kBitsOfMegabyte;
  return gradient;
}

std::vector<double> OriginalDiffq::evaluated() const {
  std::vector<double> result(w_.size());
  const double low = w_[argmin_];
  for (size_t i = 0; i < w_.size(); ++i) {
    const double most = std::ldexp(1.0, static_cast<int>(std::nearbyint(bits_[i / group_]))) - 1;
    const double level = std::nearbyint((w_[i] - low) / range_ * most);
    result[i] = low + level / most * range_;
  }
  return result;
}

}  // namespace ng::study
