// A text as one long row of token ids, read where it is needed, and which of them are targets.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace ng {

class TokenSource {
 public:
  virtual ~TokenSource() = default;

  [[nodiscard]] virtual int64_t tokens() const = 0;
  /// Tokens [first, first + out.size()), which lie in [0, tokens()). Thread-safe.
  virtual void read(int64_t first, std::span<int32_t> out) const = 0;
  /// Whether some token is not a target; where none is said to be, all are targets.
  [[nodiscard]] virtual bool has_mask() const { return false; }
  /// The loss mask of the tokens that read() gives: 1 where a token is a target, else 0.
  virtual void read_mask(int64_t first, std::span<float> out) const;
  /// 1 for each of those tokens that a document begins with, else 0.
  virtual void read_begins(int64_t first, std::span<uint8_t> out) const = 0;
  /// Whether the document of a token is not to be cut between training and validation.
  [[nodiscard]] virtual bool keeps_document_whole(int64_t /* token */) const { return false; }
  /// How many of tokens [first, first + count) are targets.
  [[nodiscard]] virtual int64_t target_tokens(int64_t first, int64_t count) const;
  /// Bytes of text behind those. May read them all.
  [[nodiscard]] virtual int64_t target_bytes(int64_t first, int64_t count) const = 0;
  /// Changes when any token does, or whether it is a target; 32 hexadecimal digits.
  [[nodiscard]] virtual std::string checksum() const = 0;
  /// What checkpoints have in its place that were written when all of a file was read for it.
  [[nodiscard]] virtual std::string older_checksum() const { return checksum(); }
};

/// Throws InternalError where tokens [first, first + count) do not lie in the source.
void require_tokens(const TokenSource& source, int64_t first, int64_t count);

}  // namespace ng
