// Whether two texts are of one kind, by how often each byte occurs in them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "tokenizer/tokenizer.h"

namespace ng {

/// How often each byte occurs.
using ByteCounts = std::array<int64_t, 256>;

/// Adds the bytes that ids stand for.
void add_bytes_of(std::span<const int32_t> ids, const Tokenizer& tokenizer, ByteCounts* counts);

/// Bits that a byte of a text takes in a code made for the frequencies of its own bytes (their
/// entropy) and in one made for those of another text, `others` (their cross entropy). What the
/// second takes more is the Kullback-Leibler divergence of the two: 0 where the frequencies are the
/// same, 0.02 between parts of the Bible, 0.4 between English and C++, above 1 between tables and
/// prose. It says nothing of what bytes say together: it is small between two texts of one
/// language.
struct TextLikeness {
  double own_bits = 0;
  double bits_by_others = 0;
  int64_t bytes = 0;  ///< that were counted of the text

  /// By 0.25 bits, of a text of at least 4,096 bytes: a shorter one says little of its kind.
  [[nodiscard]] bool is_unlike() const;
};

/// Of a text that is held against `others`, whose counts are taken as half a byte more so that
/// none is 0. [Krichevsky and Trofimov] Nothing where one of them is empty.
[[nodiscard]] std::optional<TextLikeness> likeness(const ByteCounts& text,
                                                   const ByteCounts& others);

/// What the user should know of a validation text that is held against what is trained on.
[[nodiscard]] std::string warning_of(const TextLikeness& likeness);

}  // namespace ng
