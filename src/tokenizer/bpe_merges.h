// The merges of a byte-pair encoding, and merging by them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ng {

/// A token on its way: it and how many bytes of the text it stands for.
struct Symbol {
  int32_t id;
  uint32_t bytes;
};

/// Room for merging, kept from piece to piece.
struct MergeScratch {
  std::vector<uint32_t> ranks;  ///< by symbol: of it with the next
  std::vector<uint32_t> next, before;
  std::vector<uint64_t> waiting;  ///< a heap of rank and place
};

class BpeMerges {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Merge {
    uint32_t rank = kNone;
    int32_t id = 0;  ///< of what the pair becomes
  };

  /// For about `count` merges.
  explicit BpeMerges(size_t count);

  /// A pair that was added before gets the new rank. Ids are not negative.
  void add(int32_t left, int32_t right, Merge merge);
  /// Rank kNone where there is none.
  [[nodiscard]] Merge find(int32_t left, int32_t right) const {
    const uint64_t pair = pair_of(left, right);
    for (size_t slot = slot_of(pair);; slot = (slot + 1) & (slots_.size() - 1)) {
      if (slots_[slot].pair == pair) return slots_[slot].merge;
      if (slots_[slot].pair == kFree) return {};
    }
  }

  /// The pair of the lowest rank, the leftmost among equals, becomes one until there is none.
  void apply(std::vector<Symbol>& symbols, MergeScratch& scratch) const;

 private:
  static constexpr uint64_t kFree = UINT64_MAX;
  struct Slot {
    uint64_t pair = kFree;
    Merge merge;
  };
  static uint64_t pair_of(int32_t left, int32_t right) {
    return uint64_t(uint32_t(left)) << 32 | uint32_t(right);
  }
  [[nodiscard]] size_t slot_of(uint64_t pair) const {
    return static_cast<size_t>(pair * 0x9E3779B97F4A7C15u >> shift_);
  }
  void grow();
  void apply_to_few(std::vector<Symbol>& symbols, MergeScratch& scratch) const;
  void apply_to_many(std::vector<Symbol>& symbols, MergeScratch& scratch) const;

  std::vector<Slot> slots_;  ///< a power of two of them, at most half in use
  int shift_ = 0;
  size_t used_ = 0;
};

}  // namespace ng
