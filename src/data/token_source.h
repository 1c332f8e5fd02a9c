// A text as one long row of token ids, read where it is needed.
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
  /// Bytes of text behind tokens [first, first + count).
  [[nodiscard]] virtual int64_t bytes(int64_t first, int64_t count) const = 0;
  /// Changes when any token does; 32 hexadecimal digits.
  [[nodiscard]] virtual std::string checksum() const = 0;
};

}  // namespace ng
