// Tokens that are found in a text before its tokenizer cuts it: special ones and others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/special_tokens.h"

namespace ng {

/// An entry of added_tokens in tokenizer.json.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  ///< not where a word character stands beside it
  bool lstrip = false;       ///< with the white space before it
  bool rstrip = false;       ///< with the white space behind it
  bool normalized = false;   ///< looked for in the normalized text
  bool special = false;      ///< not looked for where special tokens are text
};

/// Finds added tokens: leftmost, of those the longest, without overlap.
class AddedTokens {
 public:
  /// A part of a text: a token, or what lies between two.
  struct Part {
    size_t begin, end;
    std::optional<int32_t> id;
  };

  /// `contents` must not be empty texts.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  /// The parts of valid UTF-8, none of them empty. As in tokenizers, a token that an rstrip has run
  /// over comes nevertheless, and what is behind it once more, unless lstrip leaves nothing of it.
  [[nodiscard]] std::vector<Part> parts_of(std::string_view text,
                                           SpecialTokens special = SpecialTokens::recognized) const;

 private:
  /// A node of the trie of contents.
  struct Node {
    std::vector<std::pair<uint8_t, int32_t>> next;  ///< byte and node
    int32_t token = -1;                             ///< the one that ends here
  };
  void insert(int32_t token);
  [[nodiscard]] size_t find_first_byte(std::string_view text, size_t at) const;
  /// The longest that begins here, or -1.
  [[nodiscard]] int32_t longest_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_{1};
};

}  // namespace ng
