// A tensor together with the cast by which values come to lie in it.
#pragma once

#include "format/operand.h"
#include "tensor/view.h"

namespace ng {

/// A tensor that persists in few bits, and the cast by which values come to lie in it: its view has
/// the cast's element, and scales where the cast has them, which storing sets anew. One power of
/// two for a whole weight stays while it fits (sticky_encode_scale of format/scale.h).
struct Stored {
  View view;  ///< no rows: there is none
  Operand cast;
  [[nodiscard]] explicit operator bool() const { return view.rows > 0; }
  /// The same tensor with another rounding into it.
  [[nodiscard]] Stored rounded_by(Rounding mode) const {
    return view.rows > 0 ? Stored{view, cast.rounded_by(mode)} : Stored{};
  }
};

/// A tensor that is rounded to its element and nothing else.
[[nodiscard]] inline Stored stored_plainly(const View& view) {
  Stored stored{view, {}};
  stored.cast.element = view.element;
  return stored;
}

}  // namespace ng
