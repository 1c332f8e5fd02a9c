// Documents, one JSON object a line, as tokens packed one after the other with their loss mask.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/jsonl.h"
#include "data/masked_tokens.h"
#include "data/token_source.h"
#include "data/tokenizer.h"

namespace ng {

/// Unlike those of a plain text, its tokens stay in memory: five bytes each.
class JsonlSource final : public TokenSource {
 public:
  /// The documents of `content`; lines of white space alone are passed over. Throws Error at
  /// "path:line" for a line that read_document() refuses.
  JsonlSource(std::string_view content, const std::string& path, const Tokenizer& tokenizer,
              const DocumentRules& rules);

  [[nodiscard]] int64_t tokens() const override { return std::ssize(tokens_.ids); }
  void read(int64_t first, std::span<int32_t> out) const override;
  [[nodiscard]] bool has_mask() const override { return has_mask_; }
  void read_mask(int64_t first, std::span<float> out) const override;
  [[nodiscard]] TargetCount targets(int64_t first, int64_t count) const override;
  [[nodiscard]] std::string checksum() const override;

 private:
  [[nodiscard]] bool holds(int64_t first, int64_t count) const;

  MaskedTokens tokens_;
  std::vector<int64_t> bytes_of_id_;  // of text behind a token
  bool has_mask_ = false;
};

}  // namespace ng
