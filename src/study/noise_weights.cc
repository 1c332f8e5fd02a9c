#include "study/noise_weights.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "study/grid.h"
#include "study/samples.h"

namespace ng::study {
namespace {

constexpr int64_t kGroup = 8;                     // elements of one draw
constexpr int64_t kWeightsChunk = 1024 * kGroup;  // elements of a work item

/// R of the eight elements of a draw.
void draw_group(NoiseLaw law, const PhiloxBlock& block, float* r) {
  if (law == NoiseLaw::rounded_normal) {
    const uint32_t word = rounded_normals(block);
    for (int i = 0; i < kGroup; ++i) r[i] = rounded_normal_of(word >> (4 * i));
    return;
  }
  for (size_t i = 0; i < kGroup; ++i) {
    const uint32_t half = (block[i / 2] >> (16 * (i % 2))) & 0xFFFFu;
    if (law == NoiseLaw::uniform4)
      r[i] = (static_cast<float>(half >> 12) - 8) / 16;
    else
      r[i] =
          law == NoiseLaw::diffq ? round_to_bf16(centered_uniform(half)) : centered_uniform(half);
  }
}

}  // namespace

// ---------------------------------------------------------------- weights

WeightBlocks::WeightBlocks(std::vector<float> weights) : w(std::move(weights)) {
  const auto count = static_cast<int64_t>(w.size());
  NG_CHECK(count % kBlockValues == 0, count);
  amax.resize(static_cast<size_t>(count / kBlockValues));
  for (int64_t b = 0; b < blocks(); ++b)
    for (const float x : block(b)) {
      float& most = amax[static_cast<size_t>(b)];
      most = std::max(most, std::fabs(x));
    }
}

WeightBlocks normal_blocks(uint64_t seed, uint32_t number, int64_t blocks, Threads threads) {
  return WeightBlocks(
      samples(Distribution::normal, stream(seed, number), blocks * kBlockValues, threads));
}

WeightBlocks spread_blocks(uint64_t seed, uint32_t number, int64_t blocks, Threads threads) {
  std::vector<float> w =
      samples(Distribution::normal, stream(seed, number), blocks * kBlockValues, threads);
  (void)spread_phases(w, kBlockValues, stream(seed, number + 1), threads);
  return WeightBlocks(std::move(w));
}

WeightBlocks with_power_of_two_maxima(const WeightBlocks& of) {
  std::vector<float> w = of.w;
  for (size_t i = 0; i < w.size(); ++i) {
    const float amax = of.amax[i / kBlockValues];
    w[i] = std::fabs(w[i]) == amax ? std::copysign(2.0f, w[i]) : w[i] * (2 / amax);
  }
  return WeightBlocks(std::move(w));
}

WeightBlocks rounded_blocks(const WeightBlocks& of, const FloatGrid& grid) {
  std::vector<float> w = of.w;
  for (float& x : w) x = rounded(grid, x);
  return WeightBlocks(std::move(w));
}

// ---------------------------------------------------------------- noise

RandomKey noise_stream(uint64_t seed, uint32_t number) {
  return {.seed = seed, .tensor = number, .step = 0, .purpose = Purpose::weight_noise, .micro = 0};
}

std::vector<float> drawn_noise(NoiseLaw law, const RandomKey& key, int64_t count, Threads threads,
                               int64_t first) {
  NG_CHECK(first % kGroup == 0, first);
  std::vector<float> noise(static_cast<size_t>(count));
  parallel_for(threads, (count + kWeightsChunk - 1) / kWeightsChunk, [&](int64_t chunk, int) {
    const int64_t end = std::min(count, (chunk + 1) * kWeightsChunk);
    for (int64_t i = chunk * kWeightsChunk; i < end; i += kGroup) {
      float r[kGroup];
      draw_group(law, draw(key, static_cast<uint64_t>((first + i) / kGroup)), r);
      std::copy_n(r, std::min(kGroup, end - i), noise.begin() + i);
    }
  });
  return noise;
}

// ---------------------------------------------------------------- casts

FloatGrid float_grid(int exponent_bits, int mantissa_bits, int top) {
  NG_CHECK(exponent_bits >= 1 && exponent_bits <= 8, exponent_bits);
  NG_CHECK(mantissa_bits >= 0 && mantissa_bits <= 22, mantissa_bits);
  const auto fields = uint32_t{1} << exponent_bits;
  const uint32_t inf_code = (fields - 1) << mantissa_bits;
  return {.mantissa_bits = mantissa_bits,
          .bias = static_cast<int>(fields) - 2 - top,
          .max_code = inf_code - 1,
          .inf_code = inf_code,
          .sign_mask = uint32_t{1} << (exponent_bits + mantissa_bits)};
}

double LostNoise::error() const {
  if (lost == 0 || lost == nonzero) return kNone;
  const double share = percent() / 100;
  return 100 * std::sqrt(share * (1 - share) / static_cast<double>(nonzero));
}

LostNoise lost_noise(const WeightBlocks& weights, std::span<const float> noise, double b_t,
                     const FloatGrid& cast, Threads threads) {
  NG_CHECK(noise.size() == weights.w.size(), noise.size(), weights.w.size());
  const int64_t lost = parallel_count(threads, weights.blocks(), [&](int64_t b) {
    const float s = noise_scale(weights.amax[static_cast<size_t>(b)], static_cast<float>(b_t));
    const std::span<const float> w = weights.block(b);
    const float* r = noise.data() + b * kBlockValues;
    int64_t count = 0;
    for (size_t i = 0; i < w.size(); ++i)
      if (r[i] != 0 && rounded(cast, w[i] + r[i] * s) == rounded(cast, w[i])) ++count;
    return count;
  });
  const auto zeros = std::count(noise.begin(), noise.end(), 0.0f);
  return {.nonzero = static_cast<int64_t>(noise.size()) - zeros, .lost = lost};
}

}  // namespace ng::study
