// Tokens of pieces that were met before.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace ng {

/// The last piece of each hash, if it is short and few tokens stand for it. An entry is a cache
/// line.
class PieceCache {
 public:
  /// A place for the tokens of one piece.
  struct alignas(64) Entry {
    std::array<int32_t, 8> ids;
    std::array<char, 30> piece;
    uint8_t bytes = 0;
    uint8_t count = 0;

    [[nodiscard]] bool is_of(std::string_view text) const {
      return bytes == text.size() && std::memcmp(piece.data(), text.data(), bytes) == 0;
    }
    [[nodiscard]] std::span<const int32_t> tokens() const { return {ids.data(), count}; }
    void keep(std::string_view text, std::span<const int32_t> tokens) {
      if (tokens.size() > ids.size()) return;
      bytes = static_cast<uint8_t>(text.size());
      count = static_cast<uint8_t>(tokens.size());
      std::memcpy(piece.data(), text.data(), text.size());
      std::memcpy(ids.data(), tokens.data(), tokens.size_bytes());
    }
  };

  PieceCache() : entries_(size_t{1} << kBits) {}

  /// Where a piece of at least a byte would be; nullptr for one that is too long.
  [[nodiscard]] Entry* entry_of(std::string_view piece) {
    return piece.size() > Entry{}.piece.size() ? nullptr : &entries_[hash_of(piece)];
  }

 private:
  static constexpr int kBits = 15;  // 2 MiB

  [[nodiscard]] static size_t hash_of(std::string_view piece) {
    uint64_t hash = piece.size();
    for (size_t at = 0; at < piece.size(); at += 8) {
      uint64_t word = 0;
      std::memcpy(&word, piece.data() + at, std::min<size_t>(8, piece.size() - at));
      hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 32;
    }
    return static_cast<size_t>(hash * 0x9E3779B97F4A7C15u >> (64 - kBits));
  }

  std::vector<Entry> entries_;
};

}  // namespace ng
