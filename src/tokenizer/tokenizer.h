// Text to token ids and back.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/special_tokens.h"

namespace ng {

/// Tokens, and where in the text each begins.
struct PlacedTokens {
  std::vector<int32_t> ids;
  std::vector<int64_t> starts;  ///< by token: its first byte's place, ascending
};

/// Its functions may be called by several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Ids are in [0, vocab()).
  [[nodiscard]] virtual int64_t vocab() const = 0;
  /// Whether a file's bytes are its ids: then a plain text is read in place, and nothing in it is a
  /// special token.
  [[nodiscard]] virtual bool ids_are_bytes() const { return false; }

  /// `text` need not be valid UTF-8.
  [[nodiscard]] std::vector<int32_t> encode(
      std::string_view text, SpecialTokens special = SpecialTokens::recognized) const {
    return encoded(text, special, false).ids;
  }
  [[nodiscard]] PlacedTokens encode_with_starts(
      std::string_view text, SpecialTokens special = SpecialTokens::recognized) const {
    return encoded(text, special, true);
  }
  /// A text in parts of a little more than `bytes` each, as far as there are places where it can be
  /// cut: the tokens of the parts, one behind the other, are those of the text.
  [[nodiscard]] virtual std::vector<std::string_view> separate_parts(std::string_view text,
                                                                     size_t /*bytes*/) const {
    return {text};
  }

  /// The token that follows a whole document; empty where the vocabulary has none.
  [[nodiscard]] virtual std::optional<int32_t> end_token() const = 0;
  /// What tokenizer_config.json calls the token that begins a text, and the one that fills a batch;
  /// empty where it names none.
  [[nodiscard]] virtual std::optional<int32_t> bos_token() const { return {}; }
  [[nodiscard]] virtual std::optional<int32_t> pad_token() const { return {}; }
  /// What stands before a text that a model is given, as the post-processor and add_bos_token say:
  /// encode() does not add it, and texts to train on do not begin with it.
  [[nodiscard]] virtual std::span<const int32_t> text_begin() const { return {}; }
  /// What of text_begin() is to stand before the tokens of a whole text: none where they begin so.
  [[nodiscard]] std::span<const int32_t> begin_of(std::span<const int32_t> ids) const {
    const std::span<const int32_t> begin = text_begin();
    const bool has_it =
        ids.size() >= begin.size() && std::ranges::equal(ids.first(begin.size()), begin);
    return has_it ? std::span<const int32_t>() : begin;
  }
  /// What begins a chat in templates that say so, as text; empty where the vocabulary has none.
  [[nodiscard]] virtual std::string_view bos() const = 0;
  /// The model's chat template, Jinja text; empty where it has none.
  [[nodiscard]] virtual std::string_view chat_template() const { return ""; }

  /// Raw bytes: they need not be valid UTF-8. Throws Error for an id outside of the vocabulary.
  [[nodiscard]] virtual std::string decode(std::span<const int32_t> ids) const = 0;
  /// Valid UTF-8: special tokens by their content, U+FFFD for ill-formed bytes.
  [[nodiscard]] virtual std::string decode_text(std::span<const int32_t> ids) const = 0;
  /// Bytes of text that stand for a token inside a text; 0 for the end token.
  [[nodiscard]] virtual int64_t text_bytes(int32_t id) const = 0;

  /// Writes tokenizer.json, tokenizer_config.json and chat templates as Hugging Face's libraries
  /// read them.
  virtual void save(const std::string& folder) const = 0;

 private:
  /// What encode() is asked; without `with_starts` nobody reads where tokens begin.
  [[nodiscard]] virtual PlacedTokens encoded(std::string_view text, SpecialTokens special,
                                             bool with_starts) const = 0;
};

/// "bytes", a tokenizer.json, or a folder with one. Throws Error naming what is not supported.
[[nodiscard]] std::unique_ptr<Tokenizer> open_tokenizer(const std::string& name);

}  // namespace ng
