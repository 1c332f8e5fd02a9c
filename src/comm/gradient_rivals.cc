#include "comm/gradient_rivals.h"

#include <algorithm>

#include "backend/gradient_scale.h"
#include "comm/gradient_exchange.h"

namespace ng {
namespace {

/// s_g: that of the largest magnitude of all ranks.
float largest_scale(const Operand& cast, ValuesByRank gradients) {
  float amax = 0;
  for (const std::vector<float>& g : gradients) amax = std::max(amax, amax_of(g));
  return shared_encode_scale(cast, amax, nullptr);
}

RingMean ring_mean(const Operand& cast, ValuesByRank gradients, float encode, float whole) {
  const ElementCodec codec(*cast.element);
  const std::vector<float> value_of = decode_table(*cast.element);
  std::vector<std::vector<float>> codes(gradients.begin(), gradients.end());
  for (std::vector<float>& of_rank : codes)
    for (float& x : of_rank) x = value_of[codec.encode(x * encode)];
  std::vector<float> sum = ring_sum(*cast.element, codes, 0, std::ssize(codes[0]));
  std::vector<float> mean = mean_of_sum(sum, whole);
  return {.sum = std::move(sum), .mean = std::move(mean)};
}

}  // namespace

RingMean pre_scaled_mean(const Operand& cast, ValuesByRank gradients) {
  const float scale = largest_scale(cast, gradients);
  return ring_mean(cast, gradients, scale / static_cast<float>(gradients.size()), scale);
}

RingMean post_scaled_mean(const Operand& cast, ValuesByRank gradients) {
  const float scale = largest_scale(cast, gradients);
  return ring_mean(cast, gradients, scale, static_cast<float>(gradients.size()) * scale);
}

}  // namespace ng
