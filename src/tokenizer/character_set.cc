#include "tokenizer/character_set.h"

#include <algorithm>
#include <iterator>

#include "tokenizer/unicode_categories.h"

namespace ng {
namespace {

constexpr uint32_t bit_of(Category category) { return 1u << static_cast<uint32_t>(category); }

constexpr uint32_t kSpaces = bit_of(Category::space);
constexpr uint32_t kLetters = bit_of(Category::uppercase) | bit_of(Category::lowercase) |
                              bit_of(Category::titlecase) | bit_of(Category::modifier_letter) |
                              bit_of(Category::other_letter);

struct NamedClass {
  std::string_view name;
  uint32_t categories;
};
constexpr NamedClass kClasses[] = {
    {"s", kSpaces},
    {"Z", kSpaces},  // but for controls
    {"L", kLetters},
    {"Lu", bit_of(Category::uppercase)},
    {"Ll", bit_of(Category::lowercase)},
    {"Lt", bit_of(Category::titlecase)},
    {"Lm", bit_of(Category::modifier_letter)},
    {"Lo", bit_of(Category::other_letter)},
    {"M", bit_of(Category::mark)},
    {"N", bit_of(Category::decimal_number) | bit_of(Category::letter_number) |
              bit_of(Category::other_number)},
    {"P", bit_of(Category::connector) | bit_of(Category::punctuation)},
    {"S", bit_of(Category::symbol)}};

bool is_control(char32_t point) { return point < 0x20 || (point >= 0x7F && point < 0xA0); }

}  // namespace

bool CharacterSet::add_class(std::string_view name, bool is_negated) {
  const auto* found = std::find_if(std::begin(kClasses), std::end(kClasses),
                                   [&](const NamedClass& each) { return each.name == name; });
  if (found == std::end(kClasses)) return false;
  classes_.push_back({found->categories, name == "Z", is_negated});
  return true;
}

bool CharacterSet::Class::contains(char32_t point) const {
  const bool is_of = (categories & bit_of(category_of(point))) != 0;
  return (is_of && !(without_controls && is_control(point))) != is_negated;
}

bool CharacterSet::contains(char32_t point) const {
  const bool is_in =
      std::any_of(ranges_.begin(), ranges_.end(),
                  [&](Range range) { return point >= range.first && point <= range.last; }) ||
      std::any_of(classes_.begin(), classes_.end(),
                  [&](const Class& each) { return each.contains(point); });
  return is_in != is_negated_;
}

}  // namespace ng
