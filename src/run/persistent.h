// THE REGISTER of what lives as long as a run: weights, optimizer states, scales, counters. Each is
// named once, where it is made; the memory table, checkpoints and the search for what is not finite
// derive from the register.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "run/memory_kind.h"
#include "tensor/view.h"

namespace ng {

/// What a tensor that persists is made by.
struct PersistentSpec {
  std::string name;   ///< unique, as in checkpoints: "moment1.blocks.0.attn.q.weight"
  std::string owner;  ///< the parameter or layer it belongs to: "blocks.0.attn.q.weight"
  MemoryKind kind = MemoryKind::state;
  const ElementFormat* element = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  /// Where the rows begin in the whole tensor, and how many that has; 0: these are all.
  int64_t first_row = 0, whole_rows = 0;
  bool is_own = false;   ///< no other rank has these rows: each saves its own
  bool is_saved = true;  ///< the next step depends on it: it belongs into checkpoints
};

/// A row of the register.
struct Persistent {
  PersistentSpec spec;
  View view;                    ///< no rows: untyped memory
  std::span<std::byte> memory;  ///< all that it takes
};

}  // namespace ng
