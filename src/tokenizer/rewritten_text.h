// A text as rewritten before it is cut into tokens, and where in the original its bytes come from.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace ng {

/// Unicode's normalization forms. [UAX 15]
enum class UnicodeForm : uint8_t { nfc, nfd, nfkc, nfkd };

class RewrittenText {
 public:
  /// `original` must outlive this. Without `with_places`, place_of() must not be called.
  RewrittenText(std::string_view original, bool with_places)
      : text_(original), with_places_(with_places) {}
  RewrittenText(const RewrittenText&) = delete;
  RewrittenText& operator=(const RewrittenText&) = delete;

  [[nodiscard]] std::string_view text() const { return text_; }
  /// Where in the original the byte `at` of text() comes from; of a byte whose part was rewritten,
  /// where that part began. The end of text() is the end of the original.
  [[nodiscard]] int64_t place_of(int64_t at) const;

  /// Each ill-formed part becomes U+FFFD, as with Python's errors="replace".
  void make_valid();
  /// By the tables that tokenizers has: a character that is younger stays.
  void normalize(UnicodeForm form);
  /// Puts `words` before a text that is not empty.
  void prepend(std::string_view words);
  /// Every `from`, which is not empty, becomes `to`.
  void replace(std::string_view from, std::string_view to);

 private:
  /// Bytes from `at` on come from `from` on: one after another where they were copied, all of them
  /// from there where they were not.
  struct Run {
    int64_t at, from;
    bool is_copied;
  };
  struct Version {
    std::string text;
    std::vector<Run> runs;  ///< by `at`
  };
  class Writer;
  void take(Version version);

  std::string_view text_;
  bool with_places_;
  std::deque<Version> versions_;  ///< the newest last; empty: nothing was rewritten
};

}  // namespace ng
