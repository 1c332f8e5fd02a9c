// What one forward pass works on.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"

namespace ng {

/// Keys and values of earlier positions, per block: (sequences · capacity, kv heads · head_dim).
struct KvCache {
  std::vector<View> keys;
  std::vector<View> values;
  int64_t capacity = 0;  ///< positions per sequence
};

/// Rows are (sequence, position). Everything lies in backend memory.
struct Batch {
  TokenView inputs;
  TokenView targets;  ///< empty where no loss is wanted
  ConstView mask{};   ///< (1, T): what the target counts in the loss, 1 or 0; in a gradient any
                      ///< number; no rows: all count
  Positions at;
  TokenView first_keys{};    ///< (T): where each token's document begins, as Attention takes it;
                             ///< empty: at the sequence's beginning
  double target_count = 0;   ///< targets that count in the whole step, all micro-batches
  KvCache* cache = nullptr;  ///< generation only
  /// What gradients of the sum of losses are multiplied by.
  [[nodiscard]] float loss_scale() const { return static_cast<float>(1.0 / target_count); }
  [[nodiscard]] int64_t tokens() const { return at.sequences * at.length; }
};

}  // namespace ng
