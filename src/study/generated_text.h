// A text that nobody wrote, for studies that need something a language model can learn.
#pragma once

#include <cstdint>
#include <vector>

#include "math/philox.h"

namespace ng::study {

constexpr int64_t kTextVocabulary = 32;

/// Tokens below kTextVocabulary: 0 a space, 1 to 26 letters, 27 a full stop, 28 a line's end. Words
/// of 2 to 9 letters from a lexicon of 256, their frequencies as 1/rank; half of the time a word is
/// one of four that follow the one before it more often than others.
[[nodiscard]] std::vector<int32_t> generated_text(const RandomKey& key, int64_t tokens);

}  // namespace ng::study
