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

/// NFC, Prepend and Replace, one after another.
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
    enum class Kind : uint8_t { compose, prepend, replace } kind;
    std::string from, to;
  };
  void read(const JsonObject& step);
  std::vector<Step> steps_;
};

/// ByteLevel, alone or behind Splits, or Metaspace without splitting, or none.
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
    cut(0, with_old_characters(text, scratch.old_characters), 0, scratch, body);
  }

 private:
  enum class Prefix : uint8_t { never, first, always };

  void read(const JsonObject& step, bool is_only);
  void read_metaspace(const JsonObject& step);

  /// Cuts by the patterns from `level` on; `old` begins at byte `base` of the text.
  template <class Body>
  void cut(size_t level, std::string_view old, size_t base, EncodeScratch& scratch,
           const Body& body) const {
    Pieces pieces(patterns_[level], old, scratch.splits[level]);
    for (Pieces::Piece piece{}; pieces.next(piece);) {
      if (level + 1 == patterns_.size())
        body(base + piece.begin, base + piece.end);
      else
        cut(level + 1, old.substr(piece.begin, piece.end - piece.begin), base + piece.begin,
            scratch, body);
    }
  }

  bool is_of_bytes_ = false;
  std::vector<SplitPattern> patterns_;
  Prefix prefix_ = Prefix::never;
  std::string space_ = " ";  ///< what stands for a space, and is put before texts
};

}  // namespace ng
