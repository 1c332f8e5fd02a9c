// Random data of the studies, every value a function of (seed, stream, place), the same bits on
// every machine; and what a cast makes of data. [formats.md §8]
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/threads.h"
#include "format/operand.h"
#include "math/philox.h"
#include "numbers/errors.h"
#include "tensor/rows.h"

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

inline constexpr int64_t kTextVocabulary = 32;

/// A text that nobody wrote, for what learns. Tokens below kTextVocabulary: 0 a space, 1 to 26
/// letters, 27 a full stop, 28 a line's end. Words of 2 to 9 letters from a lexicon of 256, their
/// frequencies as 1/rank; half of the time a word is one of four that follow the one before it more
/// often than others.
[[nodiscard]] std::vector<int32_t> generated_text(const RandomKey& key, int64_t tokens);

/// Rounds `x` to nearest, blocks along its columns, and compares. `factors`: empty, or what each of
/// as many equal runs of consecutive values (x is contiguous) was multiplied by; the sums are then
/// in the units from before that, so that every block weighs what it weighed there.
[[nodiscard]] ErrorMetrics cast_error(Rows<const float> x, const Operand& cast, Threads threads,
                                      std::span<const float> factors = {});

/// Blocks of 1 × `block` of an element; E4M3 scales have an FP32 scale of the tensor above them.
[[nodiscard]] Operand block_cast(std::string_view element, int block, ScaleKind scale,
                                 ScaleRule rule);

}  // namespace ng::study
