#include "study/samples.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "math/exp.h"
#include "math/log.h"
#include "math/normal.h"

namespace ng::study {
namespace {

constexpr int64_t kChunk = 1 << 14;  // even: both values of a pair lie in one chunk
constexpr double kLn2 = 0.693147180559945309;

double unit(uint32_t word) { return (word + 0.5) * 0x1p-32; }

// Values 2·pair and 2·pair + 1.
std::array<double, 2> pair_of(Distribution distribution, const RandomKey& key, uint64_t pair) {
  if (distribution == Distribution::normal) return math::normal_pair(key, pair);
  const PhiloxBlock words = draw(key, pair);
  std::array<double, 2> values{};
  for (size_t i = 0; i < 2; ++i) {
    if (distribution == Distribution::uniform) {
      values[i] = std::sqrt(3.0) * (2 * unit(words[i]) - 1);
    } else {  // density e^(-√2|x|) / √2
      const double magnitude = -math::log(unit(words[i])) * std::sqrt(0.5);
      values[i] = (words[i + 2] & 1) != 0 ? -magnitude : magnitude;
    }
  }
  return values;
}

}  // namespace

std::string_view name_of(Distribution distribution) {
  constexpr std::string_view kNames[] = {"N(0,1)", "Laplace", "Uniform"};
  return kNames[static_cast<size_t>(distribution)];
}

RandomKey stream(uint64_t seed, uint32_t number) {
  return {.seed = seed, .tensor = number, .step = 0, .purpose = Purpose::data, .micro = 0};
}

double uniform(const RandomKey& key, uint64_t group) { return unit(draw(key, group)[0]); }

std::vector<float> samples(Distribution distribution, const RandomKey& key, int64_t count,
                           Threads threads) {
  std::vector<float> values(static_cast<size_t>(count));
  parallel_for(threads, (count + kChunk - 1) / kChunk, [&](int64_t chunk, int) {
    const int64_t end = std::min(count, (chunk + 1) * kChunk);
    for (int64_t i = chunk * kChunk; i < end; i += 2) {
      const auto two = pair_of(distribution, key, static_cast<uint64_t>(i / 2));
      values[static_cast<size_t>(i)] = static_cast<float>(two[0]);
      if (i + 1 < end) values[static_cast<size_t>(i + 1)] = static_cast<float>(two[1]);
    }
  });
  return values;
}

std::vector<float> spread_phases(std::span<float> values, int64_t block, const RandomKey& key,
                                 Threads threads) {
  const auto count = static_cast<int64_t>(values.size());
  NG_CHECK(block > 0 && count % block == 0, count, block);
  std::vector<float> factors(static_cast<size_t>(count / block));
  parallel_for(threads, count / block, [&](int64_t b, int) {
    float& factor = factors[static_cast<size_t>(b)];
    factor = static_cast<float>(math::exp(kLn2 * uniform(key, static_cast<uint64_t>(b))));
    for (int64_t i = b * block; i < (b + 1) * block; ++i) values[static_cast<size_t>(i)] *= factor;
  });
  return factors;
}

}  // namespace ng::study
