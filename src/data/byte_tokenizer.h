// The tokenizer that needs no training: a token is a byte, its id the byte's value.
#pragma once

#include "base/json_fwd.h"
#include "data/tokenizer.h"

namespace ng {

class ByteTokenizer final : public Tokenizer {
 public:
  [[nodiscard]] std::string_view name() const override { return "bytes"; }
  [[nodiscard]] int64_t vocab() const override { return 256; }
  [[nodiscard]] std::vector<int32_t> encode(std::string_view text) const override;
  [[nodiscard]] PlacedTokens encode_with_starts(std::string_view text) const override;
  [[nodiscard]] std::optional<int32_t> end_token() const override { return {}; }
  [[nodiscard]] std::string_view bos() const override { return ""; }
  [[nodiscard]] std::string decode(std::span<const int32_t> ids) const override;
  [[nodiscard]] std::unique_ptr<TokenSource> open(
      const std::vector<std::string>& paths) const override;
  void save(const std::string& folder) const override;
};

/// What save() writes as tokenizer.json: a byte-level BPE without merges.
[[nodiscard]] std::string byte_tokenizer_json();

/// Throws Error where a tokenizer.json encodes otherwise than ByteTokenizer.
void require_byte_tokenizer(const Json& json, const std::string& place);

}  // namespace ng
