// A text as one long row of token ids, read where it is needed, and which of them are targets.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace ng {

/// Tokens that count as targets, and the bytes of text behind them.
struct TargetCount {
  int64_t tokens = 0;
  int64_t bytes = 0;
};

class TokenSource {
 public:
  virtual ~TokenSource() = default;

  [[nodiscard]] virtual int64_t tokens() const = 0;
  /// Tokens [first, first + out.size()), which lie in [0, tokens()). Thread-safe.
  virtual void read(int64_t first, std::span<int32_t> out) const = 0;
  /// Whether some token is not a target.
  [[nodiscard]] virtual bool has_mask() const = 0;
  /// The loss mask of the tokens that read() gives: 1 where a token is a target, else 0.
  virtual void read_mask(int64_t first, std::span<float> out) const = 0;
  /// Of tokens [first, first + count).
  [[nodiscard]] virtual TargetCount targets(int64_t first, int64_t count) const = 0;
  /// Changes when any token does, or whether it is a target; 32 hexadecimal digits.
  [[nodiscard]] virtual std::string checksum() const = 0;
};

}  // namespace ng
