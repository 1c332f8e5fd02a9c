#include "infer/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "math/philox.h"

namespace ng {
namespace {

void require(bool holds, const char* flag, double value, const char* remedy) {
  if (holds) return;
  throw Error({.place = flag, .key = "", .problem = fmt::format("{}", value), .remedy = remedy});
}

// Uniform in [0, 1) from 32 bits of the stream "data" of a tensor no model has.
double uniform(uint64_t seed, int64_t position) {
  RandomKey key;
  key.seed = seed;
  key.tensor = (1u << 20) - 1;
  key.step = static_cast<uint32_t>(position);
  key.purpose = Purpose::data;
  return draw(key, 0)[0] * 0x1p-32;
}

bool more_likely(const std::pair<double, int32_t>& a, const std::pair<double, int32_t>& b) {
  return a.first != b.first ? a.first > b.first : a.second < b.second;
}

}  // namespace

void validate(const SamplingSettings& settings) {
  require(std::isfinite(settings.temperature) && settings.temperature >= 0, "--temperature",
          settings.temperature, "a number from 0 (greedy) up");
  require(settings.top_k >= 0, "--top-k", static_cast<double>(settings.top_k),
          "a whole number from 0 (all tokens) up");
  require(settings.top_p > 0 && settings.top_p <= 1, "--top-p", settings.top_p,
          "a number above 0, at most 1 (all tokens)");
}

int32_t Sampler::pick(std::span<const float> logits, int64_t position) {
  candidates_.clear();
  if (settings_.vocab > 0 && static_cast<size_t>(settings_.vocab) < logits.size())
    logits = logits.first(static_cast<size_t>(settings_.vocab));
  for (size_t i = 0; i < logits.size(); ++i)
    if (std::isfinite(logits[i])) candidates_.emplace_back(logits[i], static_cast<int32_t>(i));
  if (candidates_.empty())
    throw Error({.place = "generate",
                 .key = "logits",
                 .problem = "none is a finite number",
                 .remedy = "a model whose weights are finite"});
  if (settings_.temperature == 0.0)
    return std::min_element(candidates_.begin(), candidates_.end(), more_likely)->second;

  std::sort(candidates_.begin(), candidates_.end(), more_likely);
  if (settings_.top_k > 0 && static_cast<size_t>(settings_.top_k) < candidates_.size())
    candidates_.resize(static_cast<size_t>(settings_.top_k));
  const double largest = candidates_.front().first;
  double total = 0;
  for (auto& [logit, id] : candidates_) {
    logit = std::exp((logit - largest) / settings_.temperature);
    total += logit;
  }
  double kept = 0;
  size_t count = 0;
  while (count < candidates_.size() && kept < settings_.top_p * total)
    kept += candidates_[count++].first;
  double rest = uniform(settings_.seed, position) * kept;
  for (size_t i = 0; i + 1 < count; ++i) {
    rest -= candidates_[i].first;
    if (rest < 0) return candidates_[i].second;
  }
  return candidates_[count - 1].second;
}

}  // namespace ng
