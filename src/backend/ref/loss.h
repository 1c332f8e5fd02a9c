// Cross-entropy over the rows of a matrix of logits.
#pragma once

#include "backend/backend.h"

namespace ng::ref {

/// losses[t] = mask·(lse - logits[t][target]), logits (T, V) -> mask·(softmax - onehot)·scale.
/// Rows whose mask is 0 get zeros, whatever they and their targets hold.
void cross_entropy(View logits, float* losses, TokenView targets, const float* mask, float scale,
                   Compute compute);
void cross_entropy_loss(ConstView logits, float* losses, TokenView targets, const float* mask,
                        Compute compute);

}  // namespace ng::ref
