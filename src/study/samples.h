// Random data of the studies: every value a function of (seed, stream, place), the same bits on
// every machine.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/threads.h"
#include "math/philox.h"

namespace ng::study {

/// All with mean 0 and variance 1; uniform on ±√3.
enum class Distribution : uint8_t { normal, laplace, uniform };

/// "N(0,1)", "Laplace", "Uniform"
[[nodiscard]] std::string_view name_of(Distribution distribution);

/// The draws of one stream of a study.
[[nodiscard]] RandomKey stream(uint64_t seed, uint32_t number);

/// Uniform in (0, 1), never 0 or 1: (w + ½) / 2^32 of the first word w of a draw group.
[[nodiscard]] double uniform(const RandomKey& key, uint64_t group);

[[nodiscard]] std::vector<float> samples(Distribution distribution, const RandomKey& key,
                                         int64_t count, Threads threads);

/// Multiplies every block of consecutive values by 2^U, U uniform in (0, 1), and returns these
/// factors: averages over where a block's largest value lies between two powers of two.
[[nodiscard]] std::vector<float> spread_phases(std::span<float> values, int64_t block,
                                               const RandomKey& key, Threads threads);

}  // namespace ng::study
