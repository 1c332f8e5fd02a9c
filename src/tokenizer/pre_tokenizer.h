// What happens to a text between its added tokens before the model gets it: normalizer and
// pre_tokenizer of a tokenizer.json.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "tokenizer/rewritten_text.h"
#include "tokenizer/split_pattern.h"
#include "tokenizer/subword_model.h"

namespace ng {

/// NFC, NFD, NFKC, NFKD, Prepend and Replace, one after another.
class Normalizer {
 public:
  Normalizer() = default;
  /// Of the whole file. Throws Error naming what is not supported.
  explicit Normalizer(const JsonObject& file);

  void apply(RewrittenText& text) const;
  /// Whether nothing it does to a text looks beyond an ASCII letter and white space behind it.
  [[nodiscard]] bool keeps_words_apart() const;

 private:
  struct Step {
    enum class Kind : uint8_t { normalize, prepend, replace } kind;
    std::string from, to;
    UnicodeForm form = UnicodeForm::nfc;
  };
  void read(const JsonObject& step);
  std::vector<Step> steps_;
};

/// ByteLevel, alone or behind Splits and Digits, or Metaspace without splitting, or none.
class PreTokenizer {
 public:
  explicit PreTokenizer(const JsonObject& file);

  [[nodiscard]] bool is_of_bytes() const { return is_of_bytes_; }
  [[nodiscard]] size_t patterns() const { return patterns_.size(); }
  /// Whether a piece ends between every ASCII letter and white space behind it, wherever the text
  /// begins and ends.
  [[nodiscard]] bool keeps_words_apart() const;
  /// Spaces that are added or replaced; `is_first`: the text begins where the whole text does.
  void rewrite(RewrittenText& text, bool is_first) const;
  /// Calls body(begin, end) for each piece, from left to right.
  template <class Body>
  void for_pieces(std::string_view text, EncodeScratch& scratch, const Body& body) const {
    if (patterns_.empty()) {
      body(size_t{0}, text.size());
      return;
    }
    cut(0, {text, with_old_characters(text, scratch.old_characters), 0}, scratch, body);
  }

 private:
  enum class Prefix : uint8_t { never, first, always };

  void read(const JsonObject& step, bool is_only);
  void read_metaspace(const JsonObject& step);

  /// A part of a text, as it is and with old characters, which begins at byte `base` of it.
  struct Part {
    std::string_view text, old;
    size_t base;
  };
  /// Cuts by the patterns from `level` on.
  template <class Body>
  void cut(size_t level, const Part& part, EncodeScratch& scratch, const Body& body) const {
    const SplitPattern& pattern = patterns_[level];
    SplitScratch& own = scratch.splits[level];
    Pieces pieces(pattern, pattern.searched(part.text, part.old, own), own);
    for (Pieces::Piece piece{}; pieces.next(piece);) {
      const size_t begin = part.base + piece.begin, bytes = piece.end - piece.begin;
      if (level + 1 == patterns_.size())
        body(begin, begin + bytes);
      else
        cut(level + 1,
            {part.text.substr(piece.begin, bytes), part.old.substr(piece.begin, bytes), begin},
            scratch, body);
    }
  }

  bool is_of_bytes_ = false;
  std::vector<SplitPattern> patterns_;
  Prefix prefix_ = Prefix::never;
  std::string space_ = " ";  ///< what stands for a space, and is put before texts
};

}  // namespace ng
