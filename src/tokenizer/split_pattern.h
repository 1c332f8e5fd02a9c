// The regular expressions by which tokenizers cut texts into pieces, with Unicode 16's categories.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;

namespace ng {

/// A copy of valid UTF-8 in which every code point that is not ASCII stands for its category by an
/// old one of the same category and length, since PCRE2's tables are those of Unicode 14. U+0085,
/// U+017F and U+212A stay: the first is white space in no category, the others match s and k where
/// case does not matter. ASCII alone is returned as it is; else the copy lies in `buffer`.
[[nodiscard]] std::string_view with_old_characters(std::string_view text, std::string& buffer);

/// A pattern whose matches, and what lies between them, are pieces ("Isolated"). Movable.
class SplitPattern {
 public:
  /// Throws Error naming `place` and `key` for what PCRE2 does not compile, for patterns that match
  /// nothing at all, and for those that ask for more than with_old_characters() keeps.
  SplitPattern(const std::string& pattern, const std::string& place, const std::string& key);

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  friend class Pieces;
  struct Free {
    void operator()(pcre2_real_code_8* code) const;
  };
  std::string text_;
  std::unique_ptr<pcre2_real_code_8, Free> code_;
};

/// One search at a time, one after another.
class SplitScratch {
 public:
  SplitScratch();

 private:
  friend class Pieces;
  struct Free {
    void operator()(pcre2_real_match_data_8* match) const;
  };
  std::unique_ptr<pcre2_real_match_data_8, Free> match_;
};

/// Pieces of a text, from left to right; together they are the text.
class Pieces {
 public:
  struct Piece {
    size_t begin, end;
  };

  /// `text` is what with_old_characters() made.
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

/// The patterns of the models that gave them their names; empty for other names.
/// [openai/gpt-2 encoder.py; meta-llama/llama3 tokenizer.py; Qwen2 tokenization_qwen2.py;
/// tiktoken_ext/openai_public.py]
[[nodiscard]] std::string_view known_pattern(std::string_view name);
/// Their names.
inline constexpr std::string_view kKnownPatterns[] = {"gpt2", "llama3", "qwen2", "o200k"};

/// What cuts off every digit, in front of some of them.
inline constexpr std::string_view kDigitPattern = R"(\p{N})";

/// Whether a pattern is one of those, all of which cut between an ASCII letter and white space
/// behind it, whatever stands before and behind the two.
[[nodiscard]] bool cuts_before_spaces(std::string_view pattern);

}  // namespace ng
