// Several sources as one: the tokens of each behind those of the one before.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/token_source.h"

namespace ng {

class JoinedSource : public TokenSource {
 public:
  explicit JoinedSource(std::vector<std::unique_ptr<TokenSource>> parts);

  [[nodiscard]] int64_t tokens() const override { return tokens_; }
  void read(int64_t first, std::span<int32_t> out) const override;
  [[nodiscard]] bool has_mask() const override;
  void read_mask(int64_t first, std::span<float> out) const override;
  void read_begins(int64_t first, std::span<uint8_t> out) const override;
  [[nodiscard]] bool keeps_document_whole(int64_t token) const override;
  [[nodiscard]] int64_t target_tokens(int64_t first, int64_t count) const override;
  [[nodiscard]] int64_t target_bytes(int64_t first, int64_t count) const override;
  [[nodiscard]] std::string checksum() const override;
  [[nodiscard]] std::string older_checksum() const override;

 private:
  [[nodiscard]] std::string checksum_by(std::string (TokenSource::*of)() const) const;
  /// Of tokens [first, first + count), those in one part: its own from `from` on, which are
  /// `count` from `at` on among those asked for.
  struct Stretch {
    const TokenSource& part;
    int64_t from;
    size_t at, count;
  };
  void each_stretch(int64_t first, int64_t count,
                    const std::function<void(const Stretch&)>& act) const;

  std::vector<std::unique_ptr<TokenSource>> parts_;
  int64_t tokens_ = 0;
};

}  // namespace ng
