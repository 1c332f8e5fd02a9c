#include "study/simulated_ranks.h"

#include <algorithm>
#include <cmath>

#include "backend/gradient_scale.h"
#include "comm/gradient_exchange.h"
#include "math/exp.h"
#include "run/backends.h"
#include "study/samples.h"

namespace ng::study {
namespace {

// Places of a key's `micro`: rank i's numbers are 2 + i.
constexpr uint32_t kSizesStream = 0, kCommon = 1, kFirstRank = 2;

std::vector<float> normals(RandomKey key, uint32_t micro, int64_t size, Threads threads) {
  key.micro = micro;
  return samples(Distribution::normal, key, size, threads);
}

}  // namespace

std::vector<std::vector<float>> drawn_gradients(const GradientKind& kind, const RandomKey& key,
                                                int ranks, int64_t size, Threads threads) {
  const std::vector<float> sizes = normals(key, kSizesStream, size, threads);
  const std::vector<float> common = normals(key, kCommon, size, threads);
  std::vector<double> factors;
  for (const float z : sizes) factors.push_back(math::exp(kind.spread * z));
  const double alike = std::sqrt(kind.correlation), own = std::sqrt(1 - kind.correlation);
  std::vector<std::vector<float>> all;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<float> g = normals(key, kFirstRank + static_cast<uint32_t>(rank), size, threads);
    for (size_t i = 0; i < g.size(); ++i)
      g[i] = static_cast<float>(factors[i] * (alike * common[i] + own * g[i]));
    all.push_back(std::move(g));
  }
  return all;
}

std::vector<double> exact_mean(ValuesByRank gradients) {
  std::vector<double> mean(gradients[0].size());
  for (const std::vector<float>& of_rank : gradients)
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += static_cast<double>(of_rank[i]);
  for (double& x : mean) x /= static_cast<double>(gradients.size());
  return mean;
}

Operand shared_e4m3(ScaleKind scale) {
  Operand cast = operand_of("fp8_e4m3");
  cast.scale = scale;
  return cast;
}

SimulatedWire::SimulatedWire(const Operand& cast, int64_t rows, int64_t cols)
    : run_(make_backend("cpu", Threads{1}), 1), decoder_(*cast.element) {
  const auto spec = [&](const char* name, const ElementFormat* element) {
    return PersistentSpec{.name = name,
                          .owner = "gradient",
                          .kind = MemoryKind::gradients,
                          .element = element,
                          .rows = rows,
                          .cols = cols};
  };
  stored_ = run_.stored({spec("sent", nullptr), cast});
  floats_ = run_.persistent(spec("floats", &fp32_format()));
  amax_ = run_.persistent_values<float>("amax", 1);
  scale_ = run_.persistent_values<AutoScale>("scale", 1);
}

void SimulatedWire::store(std::span<const float> x, float amax, const RandomKey& key) {
  run_.upload(floats_.as<float>().data, x);
  run_.upload(amax_, std::span<const float>(&amax, 1));
  run_.execute(StoreGradient{.y = stored_,
                             .x = floats_,
                             .key = key,
                             .scale = scale_,
                             .amax = ranks_share_scale(stored_.cast) ? amax_ : nullptr});
}

std::vector<float> SimulatedWire::decoded(bool with_scales) const {
  const HostGradient host(run_.backend(), stored_.view);
  ReceivedPiece piece{.view = host.view()};
  if (!with_scales) piece.view.scales = {};
  if (piece.view.scales.tensor != nullptr) piece.level = *piece.view.scales.tensor;
  return decoder_.values(piece);
}

SentGradients SimulatedWire::send(ValuesByRank gradients, const AutoScale& scale, RandomKey key) {
  const bool is_shared = ranks_share_scale(stored_.cast);
  float amax = 0;
  for (const std::vector<float>& g : gradients) amax = std::max(amax, amax_of(g));
  run_.upload(scale_, std::span<const AutoScale>(&scale, 1));
  SentGradients sent;
  for (const std::vector<float>& g : gradients) {
    store(g, amax, key);
    sent.values.push_back(decoded(!is_shared));
    ++key.micro;
  }
  if (is_shared) sent.encode_scale = shared_encode_scale(stored_.cast, amax, &scale);
  return sent;
}

SimulatedMean SimulatedWire::reduce(const SentGradients& sent,
                                    GradientRecipe::Reduce reduce) const {
  const ElementFormat& element = *stored_.cast.element;
  const auto size = std::ssize(sent.values[0]), ranks = std::ssize(sent.values);
  const bool is_ring = reduce == GradientRecipe::Reduce::wire;
  const std::vector<float> sum =
      is_ring ? ring_sum(element, sent.values, 0, size) : exact_sum(sent.values);
  SimulatedMean result{.mean = mean_of_sum(sum, static_cast<float>(ranks) * sent.encode_scale),
                       .largest = 0,
                       .codes = is_ring ? size : ranks * size};
  if (!ranks_share_scale(stored_.cast)) return result;
  const auto count = [&](const std::vector<float>& codes) {
    result.largest += static_cast<int64_t>(count_largest(element, codes));
  };
  if (is_ring)
    count(sum);
  else
    std::ranges::for_each(sent.values, count);
  return result;
}

std::vector<float> SimulatedWire::gathered(std::span<const float> mean) {
  const AutoScale none;
  run_.upload(scale_, std::span<const AutoScale>(&none, 1));
  store(mean, amax_of(mean), {});
  return decoded(true);
}

}  // namespace ng::study
