// A source with one token before it, which is no target.
#pragma once

#include <memory>
#include <string>

#include "data/token_source.h"

namespace ng {

class PrefixedSource final : public TokenSource {
 public:
  PrefixedSource(int32_t prefix, std::unique_ptr<TokenSource> rest);

  [[nodiscard]] int64_t tokens() const override { return 1 + rest_->tokens(); }
  void read(int64_t first, std::span<int32_t> out) const override;
  [[nodiscard]] bool has_mask() const override { return true; }
  void read_mask(int64_t first, std::span<float> out) const override;
  void read_begins(int64_t first, std::span<uint8_t> out) const override;
  [[nodiscard]] int64_t target_tokens(int64_t first, int64_t count) const override;
  [[nodiscard]] int64_t target_bytes(int64_t first, int64_t count) const override;
  [[nodiscard]] std::string checksum() const override;

 private:
  int32_t prefix_;
  std::unique_ptr<TokenSource> rest_;
};

}  // namespace ng
