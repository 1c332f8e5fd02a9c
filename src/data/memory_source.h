// Tokens with their loss mask, held in memory.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "data/masked_tokens.h"
#include "data/token_source.h"
#include "tokenizer/tokenizer.h"

namespace ng {

/// Bytes of text behind every id of a vocabulary.
[[nodiscard]] std::vector<int64_t> text_bytes_by_id(const Tokenizer& tokenizer);

/// Five bytes a token.
class MemorySource final : public TokenSource {
 public:
  MemorySource(MaskedTokens tokens, std::vector<int64_t> bytes_of_id);
  MemorySource(MaskedTokens tokens, const Tokenizer& tokenizer)
      : MemorySource(std::move(tokens), text_bytes_by_id(tokenizer)) {}

  [[nodiscard]] int64_t tokens() const override { return std::ssize(tokens_.ids); }
  void read(int64_t first, std::span<int32_t> out) const override;
  [[nodiscard]] bool has_mask() const override { return has_mask_; }
  void read_mask(int64_t first, std::span<float> out) const override;
  void read_begins(int64_t first, std::span<uint8_t> out) const override;
  [[nodiscard]] bool keeps_document_whole(int64_t /* token */) const override {
    return keeps_documents_;
  }
  /// From now on its documents are not to be cut.
  void keep_documents() { keeps_documents_ = true; }
  [[nodiscard]] int64_t target_tokens(int64_t first, int64_t count) const override;
  [[nodiscard]] int64_t target_bytes(int64_t first, int64_t count) const override;
  [[nodiscard]] std::string checksum() const override;

 private:
  MaskedTokens tokens_;
  std::vector<int64_t> bytes_of_id_;  // of text behind a token that is a target
  bool has_mask_ = false, keeps_documents_ = false;
};

}  // namespace ng
