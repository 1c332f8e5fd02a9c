// Regular expressions with characters that are not ASCII, for texts in which each such character
// stands for all that the expression does not tell from it: PCRE2, whose tables are older than
// Unicode 16, sees neither the characters nor their categories.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/character_set.h"

namespace ng {

/// What code points beyond ASCII some sets do not tell from each other, and a character of two,
/// three and four bytes to stand for each such class: of scripts without two cases, whatever they
/// are, because the pattern names what it means.
class CharacterClasses {
 public:
  CharacterClasses() = default;
  /// Of at most 64 sets.
  explicit CharacterClasses(const std::vector<CharacterSet>& sets);

  [[nodiscard]] size_t count() const { return classes_.size(); }
  /// Set `index` of the sets, as a class of PCRE2's.
  [[nodiscard]] std::string regex_of(size_t index, const CharacterSet& set) const;
  /// A copy of valid UTF-8 in `buffer`, with what stands for its characters, byte for byte; U+017F
  /// and U+212A stay, because they are s and k where case does not matter. ASCII alone is returned
  /// as it is.
  [[nodiscard]] std::string_view standing_for(std::string_view text, std::string& buffer) const;

 private:
  struct Run {
    char32_t first;
    uint16_t index;  ///< of its class
  };
  struct Class {
    uint64_t sets;                          ///< a bit for each that it is in
    std::array<std::string, 3> characters;  ///< of two, three and four bytes
  };
  [[nodiscard]] const Class& class_of(char32_t point) const;

  std::vector<Run> runs_;
  std::vector<Class> classes_;
};

/// A pattern, in UTF-8, as one for what its classes make of texts.
class ClassedPattern {
 public:
  explicit ClassedPattern(std::string_view pattern);

  /// Why it cannot be used: what it has; empty where it can.
  [[nodiscard]] const std::string& objection() const { return objection_; }
  [[nodiscard]] const std::string& regex() const { return regex_; }
  [[nodiscard]] const CharacterClasses& classes() const { return classes_; }

 private:
  std::string objection_, regex_;
  CharacterClasses classes_;
};

/// Whether a pattern has a character that is not ASCII, or one as \x{4E00} or \u4E00.
[[nodiscard]] bool needs_classes(std::string_view pattern);

}  // namespace ng
