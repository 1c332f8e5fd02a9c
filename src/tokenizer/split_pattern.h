// The regular expressions by which tokenizers cut texts into pieces, with Unicode 16's categories.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "tokenizer/pattern_classes.h"

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;

namespace ng {

/// A copy of valid UTF-8 in which every code point that is not ASCII stands for its category by an
/// old one of the same category and length, since PCRE2's tables are those of Unicode 14. U+0085,
/// U+017F and U+212A stay: the first is white space in no category, the others match s and k where
/// case does not matter. ASCII alone is returned as it is; else the copy lies in `buffer`.
[[nodiscard]] std::string_view with_old_characters(std::string_view text, std::string& buffer);

/// One search at a time, one after another.
class SplitScratch {
 public:
  SplitScratch();

 private:
  friend class Pieces;
  friend class SplitPattern;
  struct Free {
    void operator()(pcre2_real_match_data_8* match) const;
  };
  std::unique_ptr<pcre2_real_match_data_8, Free> match_;
  std::string characters_;
};

/// A pattern whose matches, and what lies between them, are pieces ("Isolated"). Movable.
class SplitPattern {
 public:
  /// Throws Error naming `place` and `key` for what PCRE2 does not compile, for patterns that match
  /// nothing at all, and for those that ask for more than is kept of characters.
  SplitPattern(const std::string& pattern, const std::string& place, const std::string& key);

  /// As canonical_pattern() writes it.
  [[nodiscard]] const std::string& text() const { return text_; }
  /// Of a valid text and `old`, which with_old_characters() made of it: what Pieces searches, byte
  /// for byte. It lives as long as both and until the scratch is used for another.
  [[nodiscard]] std::string_view searched(std::string_view text, std::string_view old,
                                          SplitScratch& scratch) const {
    return classes_ ? classes_->standing_for(text, scratch.characters_) : old;
  }

 private:
  friend class Pieces;
  struct Free {
    void operator()(pcre2_real_code_8* code) const;
  };
  std::string text_;
  std::unique_ptr<const CharacterClasses> classes_;  ///< null: the pattern is ASCII
  std::unique_ptr<pcre2_real_code_8, Free> code_;
};

/// Pieces of a text, from left to right; together they are the text.
class Pieces {
 public:
  struct Piece {
    size_t begin, end;
  };

  /// `text` is what pattern.searched() gave, with this scratch.
  Pieces(const SplitPattern& pattern, std::string_view text, SplitScratch& scratch)
      : pattern_(&pattern), text_(text), scratch_(&scratch) {}

  /// False at the end. Throws Error where the pattern takes too long for this text.
  bool next(Piece& piece);

 private:
  void find_match();

  const SplitPattern* pattern_;
  std::string_view text_;
  SplitScratch* scratch_;
  size_t done_ = 0;
  Piece match_{0, 0};  ///< behind done_, or at its end where it was given out
};

}  // namespace ng
