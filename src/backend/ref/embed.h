// Embedding tables: token and learned position vectors.
#pragma once

#include "backend/backend.h"

namespace ng::ref {

/// y (T, C) = tokens[ids] + positions[first + i]; positions may have no rows.
void embed(View y, TokenView ids, ConstView tokens, ConstView positions, const Positions& at,
           Compute compute);

/// dtokens[ids[t]] += dy[t] and dpositions[first + i] += dy[t], t ascending, FP32.
void embed_backward(View dtokens, View dpositions, ConstView dy, TokenView ids,
                    const Positions& at);

}  // namespace ng::ref
