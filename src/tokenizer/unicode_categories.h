// The general categories of Unicode 16.0, which are newer than those of Debian's libraries.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace ng {

/// Of a code point: its general category, as finely as tokenizers ask. Mark is Mn, Mc and Me;
/// punctuation all P but Pc; symbol all S; space the property White_Space, whatever the category;
/// other what is left: controls, format characters, what is not assigned.
enum class Category : uint8_t {
  uppercase,
  lowercase,
  titlecase,
  modifier_letter,
  other_letter,
  mark,
  decimal_number,
  letter_number,
  other_number,
  connector,
  punctuation,
  symbol,
  space,
  other
};

/// By code point up to U+10FFFF.
[[nodiscard]] Category category_of(char32_t code_point);

/// The code points whose category is not that of the one before, ascending, 0 among them.
[[nodiscard]] const std::vector<char32_t>& category_starts();

/// What \w matches: letters, marks, decimal and letter numbers, connectors, the two joiners and
/// the circled letters, which are symbols with the property Alphabetic.
[[nodiscard]] bool is_word_character(char32_t code_point);

namespace detail {

/// From U+0000 on: a letter for a category and how many code points have it, no number for one.
extern const std::string_view kCategoryRuns;

}  // namespace detail
}  // namespace ng
