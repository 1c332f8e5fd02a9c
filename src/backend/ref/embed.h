// Embedding tables: token and learned position vectors.
#pragma once

#include "backend/operations.h"

namespace ng::ref {

/// y (T, C) = tokens[ids] + positions[first + i]; positions may have no rows.
void perform(const Embed& op);

/// dtokens[ids[t]] += dy[t] and dpositions[first + i] += dy[t], t ascending, FP32.
void perform(const EmbedBackward& op);

}  // namespace ng::ref
