// The largest magnitude of what an operation stores, taken block by block while a block is in the
// core's cache.
#pragma once

#include "backend/operation_words.h"
#include "tensor/view.h"

namespace ng::cpu {

/// By any worker in any order: the largest of bit patterns has none.
class AmaxOfBlocks {
 public:
  /// Null: nothing is looked for.
  explicit AmaxOfBlocks(StoredAmax* amax) : amax_(amax) {
    if (amax_ != nullptr) *amax_ = {};
  }
  /// Of values, FP32 or BF16, that were just written.
  void note(const ConstView& block) const {
    if (amax_ != nullptr) note_values(block);
  }

 private:
  void note_values(const ConstView& block) const;
  StoredAmax* amax_;
};

}  // namespace ng::cpu
