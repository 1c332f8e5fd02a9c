// Parts of study noise: weights in square blocks, the laws of R that noise is drawn by, and casts
// to floats of any exponent and mantissa bits. [source 002, §3; recipes.md §1.1]
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "backend/noise_operations.h"
#include "base/threads.h"
#include "math/noise_precision.h"
#include "math/round.h"
#include "math/weight_noise.h"

namespace ng::study {

inline constexpr int64_t kBlockValues = kNoiseBlock * kNoiseBlock;

/// Bit-widths b_t of Table C.1.
inline constexpr int kFewestBits = 3;
inline constexpr int kMostBits = 13;
/// Mantissa bits of BF16.
inline constexpr int kBf16Mantissa = 7;

// ---------------------------------------------------------------- weights

/// Weights block by block, kBlockValues each, and every block's largest magnitude.
struct WeightBlocks {
  std::vector<float> w;
  std::vector<float> amax;

  explicit WeightBlocks(std::vector<float> weights);
  [[nodiscard]] int64_t blocks() const { return static_cast<int64_t>(amax.size()); }
  [[nodiscard]] std::span<const float> block(int64_t b) const {
    return std::span(w).subspan(static_cast<size_t>(b * kBlockValues), kBlockValues);
  }
};

/// N(0, 1), of FP32. `number` is that of the stream.
[[nodiscard]] WeightBlocks normal_blocks(uint64_t seed, uint32_t number, int64_t blocks,
                                         Threads threads);
/// The same with every block at its own place between two powers of two: times 2^U, U uniform in
/// (0, 1).
[[nodiscard]] WeightBlocks spread_blocks(uint64_t seed, uint32_t number, int64_t blocks,
                                         Threads threads);
/// `of` scaled so that the largest magnitude of every block is exactly 2.
[[nodiscard]] WeightBlocks with_power_of_two_maxima(const WeightBlocks& of);
/// Rounded to a format.
[[nodiscard]] WeightBlocks rounded_blocks(const WeightBlocks& of, const FloatGrid& grid);

// ---------------------------------------------------------------- noise

/// What R is drawn by.
enum class NoiseLaw : uint8_t {
  rounded_normal,  ///< GaussWS: {0, ±1, ±2} by the bit recipe, τ = 0
  uniform4,        ///< k/16, k = -8 ... 7: U(-1/2, 1/2) in 4 bits, τ = -4
  diffq,           ///< U(-1/2, 1/2) of 16 bits, rounded to BF16
  uniform16,       ///< the same, not rounded: NIPQ's n
};

/// By which element i is drawn as column i of a tensor with one row.
[[nodiscard]] RandomKey noise_stream(uint64_t seed, uint32_t number);
/// R of elements first ... first + count - 1, `first` a multiple of 8; the bits do not depend on
/// the number of threads.
[[nodiscard]] std::vector<float> drawn_noise(NoiseLaw law, const RandomKey& key, int64_t count,
                                             Threads threads, int64_t first = 0);

// ---------------------------------------------------------------- casts

/// IEEE-like floats with any number of exponent bits, at most 8, and of mantissa bits, at most 22,
/// whose highest binade begins at 2^top. Rounding to them saturates.
[[nodiscard]] FloatGrid float_grid(int exponent_bits, int mantissa_bits, int top);
/// With the exponents of FP32.
[[nodiscard]] inline FloatGrid wide_grid(int mantissa_bits) {
  return float_grid(8, mantissa_bits, 127);
}
/// x rounded to nearest even.
[[nodiscard]] inline float rounded(const FloatGrid& grid, float x) {
  return decode_float(grid, encode_float(grid, x, {}, OverflowRule::saturate));
}

/// Noise that is not zero, and how much of it the cast takes away: fp(w + R·s) = fp(w). [Eq. 5]
struct LostNoise {
  int64_t nonzero = 0;
  int64_t lost = 0;

  [[nodiscard]] double percent() const {
    return nonzero == 0 ? 0 : 100 * static_cast<double>(lost) / static_cast<double>(nonzero);
  }
  /// Standard error of percent(), draws taken for independent.
  [[nodiscard]] double error() const;
};
/// s = max|w| of the block · 2^(1 - b_t); sum and product in FP32. `noise` has a value per weight.
[[nodiscard]] LostNoise lost_noise(const WeightBlocks& weights, std::span<const float> noise,
                                   double b_t, const FloatGrid& cast, Threads threads);

/// Σ of count(item), an integer, over items.
template <class Count>
[[nodiscard]] int64_t parallel_count(Threads threads, int64_t items, const Count& count) {
  std::vector<int64_t> counts(static_cast<size_t>(items));
  parallel_for(threads, items,
               [&](int64_t item, int) { counts[static_cast<size_t>(item)] = count(item); });
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

}  // namespace ng::study
