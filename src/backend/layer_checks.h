// What the operations of layer_operations.h ask of their shapes, whichever backend runs them. All
// throw InternalError.
#pragma once

#include "backend/layer_operations.h"

namespace ng {

/// Of attention and its adjoint.
void check_attention(const AttentionShape& shape, const ConstView& q, const ConstView& k,
                     const ConstView& v, const TokenView& first_keys);
/// Of embed; of its adjoint with dy for y and the gradients of the tables. `positions` may have no
/// rows.
void check_embedding(const ConstView& y, TokenView ids, const ConstView& tokens,
                     const ConstView& positions, const Positions& at);
void check_rope(const Rope& op);

}  // namespace ng
