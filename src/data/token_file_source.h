// A file of token ids, read in place: nothing of it stays in memory, whatever its size.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/files.h"
#include "data/token_file.h"
#include "data/token_source.h"
#include "tokenizer/tokenizer.h"

namespace ng {

/// A checksum of so many tokens takes less than half a second.
inline constexpr int64_t kTokensOfChecksum = int64_t{1} << 26;

class TokenFileSource final : public TokenSource {
 public:
  /// Reads no ids: that they are the tokenizer's is seen where they are read, of which read() and
  /// target_bytes() throw Error naming file, token and id. Throws it for what parse_token_layout
  /// refuses. Documents end with the tokenizer's end token.
  TokenFileSource(const std::string& path, bool bare_uint16, const Tokenizer& tokenizer);

  [[nodiscard]] int64_t tokens() const override { return layout_.tokens; }
  void read(int64_t first, std::span<int32_t> out) const override;
  [[nodiscard]] bool has_mask() const override { return has_mask_; }
  void read_mask(int64_t first, std::span<float> out) const override;
  void read_begins(int64_t first, std::span<uint8_t> out) const override;
  [[nodiscard]] int64_t target_tokens(int64_t first, int64_t count) const override;
  [[nodiscard]] int64_t target_bytes(int64_t first, int64_t count) const override;
  /// The older one up to kTokensOfChecksum, else of their number and of pieces all over the file.
  [[nodiscard]] std::string checksum() const override;
  [[nodiscard]] std::string older_checksum() const override;

 private:
  void read_known_ids(int64_t first, std::span<uint32_t> out) const;
  void add_to(Checksum& checksum, int64_t first, size_t count) const;

  ReadFile file_;
  TokenFileLayout layout_;
  std::vector<int64_t> bytes_of_id_;  // of text behind a token
  std::string remedy_;                // for an id that none of them is
  std::optional<int32_t> end_token_;
  bool has_mask_ = false;
};

/// Ids and mask of a file whose vocabulary nothing says: every id is taken.
[[nodiscard]] TokenFileLayout token_layout_of(const ReadFile& file, bool bare_uint16);
/// Ids [first, first + out.size()) of it; one of eight bytes that 32 bits do not hold becomes the
/// largest that they do, which no vocabulary has.
void read_token_ids(const ReadFile& file, const TokenFileLayout& layout, int64_t first,
                    std::span<uint32_t> out);
/// Throws Error naming the file, the token and the id as it is stored, where one of these, read
/// from token `first` on, is not below `vocab`.
void require_ids_below(int64_t vocab, const ReadFile& file, const TokenFileLayout& layout,
                       int64_t first, std::span<const uint32_t> ids, const std::string& remedy);
/// Their mask, 0 or 1; `layout` has one.
void read_token_mask(const ReadFile& file, const TokenFileLayout& layout, int64_t first,
                     std::span<uint8_t> out);

}  // namespace ng
