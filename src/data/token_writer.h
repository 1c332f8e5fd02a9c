// Files of token ids, written as they come.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "data/token_file.h"

namespace ng {

/// The file appears whole, at finish(), or not at all. BIN.TOK is version 2 with a mask; the others
/// have none. Ids take two bytes where the vocabulary is at most 65,536, else four.
class TokenWriter {
 public:
  /// Ids are below `vocab`. Throws Error where the kind cannot hold them.
  TokenWriter(const std::string& path, TokenFileKind kind, int64_t vocab);

  /// `mask`: 0 or 1 for each id. Throws Error for an id that is not below the vocabulary, and where
  /// there are more than the kind can count.
  void add(std::span<const int32_t> ids, std::span<const uint8_t> mask);
  void finish();

  [[nodiscard]] int64_t tokens() const { return tokens_; }

 private:
  void add_mask(std::span<const uint8_t> mask);
  [[nodiscard]] std::string header() const;

  std::string path_;
  TokenFileKind kind_;
  int64_t vocab_;
  int width_;
  FileWriter file_;
  int64_t tokens_ = 0;
  std::vector<uint8_t> mask_bits_;  ///< of BIN.TOK, written behind the ids
};

}  // namespace ng
