#include "study/samples.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "math/exp.h"
#include "math/log.h"
#include "math/normal.h"
#include "numbers/narrow_matrix.h"

namespace ng::study {
namespace {

constexpr int64_t kSamplesChunk = 1 << 14;  // even: both values of a pair lie in one chunk
constexpr double kSamplesLn2 = 0.693147180559945309;

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

// ---------------------------------------------------------------- text

constexpr int kWords = 256;
constexpr double kLogWords = 5.545177444479562;  // ln 256
constexpr int32_t kSpace = 0, kStop = 27, kEnd = 28;

using Word = std::vector<int32_t>;

// A rank in [0, count) with probability about 1/(rank + 1): its logarithm is uniform.
int by_rank(double u, double log_count) { return static_cast<int>(math::exp(u * log_count)) - 1; }

std::vector<Word> lexicon(const RandomKey& key) {
  std::vector<Word> words(kWords);
  uint64_t group = 0;
  for (Word& word : words) {
    const int letters = 2 + static_cast<int>(8 * uniform(key, group++));
    for (int i = 0; i < letters; ++i)
      word.push_back(1 + by_rank(uniform(key, group++), 3.2580965380214821));
  }
  return words;
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
  parallel_for(threads, (count + kSamplesChunk - 1) / kSamplesChunk, [&](int64_t chunk, int) {
    const int64_t end = std::min(count, (chunk + 1) * kSamplesChunk);
    for (int64_t i = chunk * kSamplesChunk; i < end; i += 2) {
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
    factor = static_cast<float>(math::exp(kSamplesLn2 * uniform(key, static_cast<uint64_t>(b))));
    for (int64_t i = b * block; i < (b + 1) * block; ++i) values[static_cast<size_t>(i)] *= factor;
  });
  return factors;
}

std::vector<int32_t> generated_text(const RandomKey& key, int64_t tokens) {
  RandomKey letters = key;
  letters.step = 1;  // a stream of its own
  const std::vector<Word> words = lexicon(letters);
  std::vector<int32_t> text;
  int previous = 0;
  for (uint64_t group = 0; static_cast<int64_t>(text.size()) < tokens; ++group) {
    const PhiloxBlock r = draw(key, group);
    const double u = (r[0] + 0.5) * 0x1p-32;
    // The followers of word w are words 37·w + 11·i, i = 0 ... 3: anything fixed would do.
    const int follower = (37 * previous + 11 * static_cast<int>(r[1] % 4)) % kWords;
    previous = (r[1] & 0x80000000u) != 0 ? follower : by_rank(u, kLogWords);
    const Word& word = words[static_cast<size_t>(previous)];
    text.insert(text.end(), word.begin(), word.end());
    if (r[2] % 9 == 0) text.push_back(kStop);
    text.push_back(r[2] % 45 == 0 ? kEnd : kSpace);
  }
  text.resize(static_cast<size_t>(tokens));
  return text;
}

ErrorMetrics cast_error(Rows<const float> x, const Operand& cast, Threads threads,
                        std::span<const float> factors) {
  const auto runs = static_cast<int64_t>(factors.size());
  NG_CHECK(runs == 0 || (x.contiguous() && x.size() % runs == 0), x.size(), runs);
  const NarrowMatrix narrow = quantize(x, cast, {}, threads);
  std::vector<float> rounded = dequantize(narrow, threads);
  ErrorSums sums;
  if (runs == 0) {
    sums = error_sums(x, {rounded.data(), x.rows, x.cols, x.cols}, threads);
  } else {
    std::vector<double> original(rounded.size());
    for (size_t i = 0; i < rounded.size(); ++i) {
      const float factor = factors[i / (rounded.size() / factors.size())];
      original[i] = static_cast<double>(x.data[i]) / factor;
      rounded[i] /= factor;
    }
    sums.add(original, rounded);
  }
  sums.add_saturated(narrow.counts.saturated);
  return sums.metrics();
}

Operand block_cast(std::string_view element, int block, ScaleKind scale, ScaleRule rule) {
  Operand cast;
  cast.element = &element_format(element);
  cast.block = {.kind = Block::Kind::tile, .rows = 1, .cols = block};
  cast.scale = scale;
  cast.tensor_scale = scale == ScaleKind::e4m3 ? ScaleKind::fp32 : ScaleKind::none;
  cast.scale_rule = rule;
  return cast;
}

}  // namespace ng::study
