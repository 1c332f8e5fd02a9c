// A file of token ids, read in place: nothing of it stays in memory, whatever its size.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "data/read_progress.h"
#include "data/token_file.h"
#include "data/token_source.h"
#include "tokenizer/tokenizer.h"

namespace ng {

class TokenFileSource final : public TokenSource {
 public:
  /// Reads the file once. Throws Error naming the file for what parse_token_layout refuses, and for
  /// an id that the tokenizer does not have. Documents end with the tokenizer's end token.
  TokenFileSource(const std::string& path, bool bare_uint16, const Tokenizer& tokenizer,
                  const BytesRead& progress = {});

  [[nodiscard]] int64_t tokens() const override { return layout_.tokens; }
  void read(int64_t first, std::span<int32_t> out) const override;
  [[nodiscard]] bool has_mask() const override { return has_mask_; }
  void read_mask(int64_t first, std::span<float> out) const override;
  void read_begins(int64_t first, std::span<uint8_t> out) const override;
  [[nodiscard]] int64_t target_tokens(int64_t first, int64_t count) const override;
  [[nodiscard]] int64_t target_bytes(int64_t first, int64_t count) const override;
  [[nodiscard]] std::string checksum() const override { return checksum_; }

 private:
  void read_whole(const Tokenizer& tokenizer, const BytesRead& progress);

  ReadFile file_;
  TokenFileLayout layout_;
  std::vector<int64_t> bytes_of_id_;  // of text behind a token
  std::optional<int32_t> end_token_;
  std::string checksum_;
  bool has_mask_ = false;
};

/// Ids and mask of a file whose vocabulary nothing says: every id is taken.
[[nodiscard]] TokenFileLayout token_layout_of(const ReadFile& file, bool bare_uint16);
/// Ids [first, first + out.size()) of it; one of eight bytes that 32 bits do not hold becomes the
/// largest that they do, which no vocabulary has.
void read_token_ids(const ReadFile& file, const TokenFileLayout& layout, int64_t first,
                    std::span<uint32_t> out);
/// Their mask, 0 or 1; `layout` has one.
void read_token_mask(const ReadFile& file, const TokenFileLayout& layout, int64_t first,
                     std::span<uint8_t> out);

}  // namespace ng
