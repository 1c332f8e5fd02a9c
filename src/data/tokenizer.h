// Text to token ids and back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/token_source.h"

namespace ng {

/// Tokens, and where in the text each begins.
struct PlacedTokens {
  std::vector<int32_t> ids;
  std::vector<int64_t> starts;  ///< by token: its first byte's place, ascending
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Ids are in [0, vocab()).
  [[nodiscard]] virtual int64_t vocab() const = 0;
  [[nodiscard]] virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  [[nodiscard]] virtual PlacedTokens encode_with_starts(std::string_view text) const = 0;
  /// The token that follows a whole document; empty where the vocabulary has none.
  [[nodiscard]] virtual std::optional<int32_t> end_token() const = 0;
  /// What begins a chat in templates that say so, as text; empty where the vocabulary has none.
  [[nodiscard]] virtual std::string_view bos() const = 0;
  /// Raw bytes: they need not be valid UTF-8. Throws Error for an id outside of the vocabulary.
  [[nodiscard]] virtual std::string decode(std::span<const int32_t> ids) const = 0;
  /// These files, one after the other without separator, as tokens.
  [[nodiscard]] virtual std::unique_ptr<TokenSource> open(
      const std::vector<std::string>& paths) const = 0;
  /// Writes tokenizer.json and tokenizer_config.json as Hugging Face's libraries read them.
  virtual void save(const std::string& folder) const = 0;
};

/// "bytes", a tokenizer.json, or a folder with one. Throws Error naming what is not supported.
[[nodiscard]] std::unique_ptr<Tokenizer> open_tokenizer(const std::string& name);

}  // namespace ng
