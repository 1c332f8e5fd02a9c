// THE REGISTER of what lives as long as a run: weights, optimizer states, scales, counters. Each is
// named once, where it is made; the memory table, checkpoints and the search for what is not finite
// derive from the register.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "format/operand.h"
#include "run/memory_kind.h"
#include "tensor/cut.h"
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
  Cut cut{};               ///< which part of what ranks divide that tensor is
  bool is_shared = false;  ///< one value for the whole tensor, which every part of it has
  bool is_own = false;     ///< no other rank has these rows: each saves its own
  bool is_saved = true;    ///< the next step depends on it: it belongs into checkpoints
};

/// Memory that persists comes in multiples of 64 bytes, at least one of them.
[[nodiscard]] size_t persistent_bytes(size_t bytes);

/// A tensor that persists as a cast stores it; the cast says the element.
struct StoredSpec {
  PersistentSpec spec;
  Operand cast;

  /// The rows of the register that it takes: its values, scales of its blocks as `<name>.scale`, by
  /// a map `<name>.map_scale`, one of the whole tensor where blocks have theirs as
  /// `<name>.tensor_scale`, their powers and centers as `<name>.power` and `<name>.center`; second
  /// parts of values as `<name>.low`. Parts have one each of what is of the whole tensor.
  [[nodiscard]] std::vector<PersistentSpec> rows() const;
  /// All the memory of them.
  [[nodiscard]] size_t bytes() const;
  /// What a rank keeps that owns `rows` of the parameter's `of` rows, from `first` on: as many of
  /// these; of a tensor with other rows (one for each head) as many as that share comes to, rounded
  /// up.
  [[nodiscard]] StoredSpec part(int64_t first, int64_t rows, int64_t of) const;
};

/// A row of the register.
struct Persistent {
  PersistentSpec spec;
  View view;                    ///< no rows: untyped memory
  std::span<std::byte> memory;  ///< all that it takes
};

}  // namespace ng
