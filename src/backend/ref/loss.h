// Cross-entropy over the rows of a matrix of logits.
#pragma once

#include "backend/operations.h"

namespace ng::ref {

/// losses[t] = mask·(lse - logits[t][target]), logits (T, V) -> mask·(softmax - onehot)·scale.
/// Rows whose mask is 0 get zeros, whatever they and their targets hold.
void perform(const CrossEntropy& op);
void perform(const CrossEntropyLoss& op);
void perform(const PreferenceLoss& op);

}  // namespace ng::ref
