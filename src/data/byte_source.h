// Files whose bytes are tokens, read in place: nothing of them stays in memory.
#pragma once

#include <vector>

#include "base/files.h"
#include "data/token_source.h"

namespace ng {

class ByteSource final : public TokenSource {
 public:
  explicit ByteSource(const std::vector<std::string>& paths);

  [[nodiscard]] int64_t tokens() const override { return tokens_; }
  void read(int64_t first, std::span<int32_t> out) const override;
  void read_begins(int64_t first, std::span<uint8_t> out) const override;
  [[nodiscard]] int64_t target_bytes(int64_t first, int64_t count) const override;
  [[nodiscard]] std::string checksum() const override;

 private:
  struct Piece {
    ReadFile file;
    int64_t first;  ///< its first byte's place in the whole
  };
  std::vector<Piece> pieces_;  ///< none of them empty
  int64_t tokens_ = 0;
};

}  // namespace ng
