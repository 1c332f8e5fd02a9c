// Embedding and rotary position tables of the cpu backend: contracts in backend/backend.h.
#pragma once

#include "backend/backend.h"
#include "backend/cpu/workspace.h"

namespace ng::cpu {

void embed(Workspace& workspace, View y, TokenView ids, ConstView tokens, ConstView positions,
           const Positions& at, Compute compute);
void embed_backward(Workspace& workspace, View dtokens, View dpositions, ConstView dy,
                    TokenView ids, const Positions& at);

void rope_table(Workspace& workspace, View table, float theta);
void rope(Workspace& workspace, View x, ConstView table, const Positions& at, int head_dim,
          bool inverse, Compute compute);

}  // namespace ng::cpu
