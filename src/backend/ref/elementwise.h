// Filling, copying, adding and summing; what a step decides from sums.
#pragma once

#include "backend/operations.h"

namespace ng::ref {

void perform(const Fill& op);
void perform(const Clear& op);
/// Of and to any element, scales read but not written.
void perform(const Copy& op);
void perform(const Add& op);
void perform(const Combine& op);
void perform(const Normalize& op);

/// sum[c] += Σ_t x[t][c]: the sum in FP64, rounded once, then one FP32 addition.
void perform(const AddColumnSums& op);
void perform(const FindColumnMeans& op);
void perform(const SubtractRow& op);
/// *sum += Σ x and Σ x², in FP64. Element i of the row-major tensor goes to lane i % 16 of chunk
/// i / 4096; lanes fold by +8, +4, +2, +1, chunks pairwise by index. [recipes.md §0]
void perform(const AddSum& op);
void perform(const AddSumOfSquares& op);
/// *count += number of NaN and infinite values.
void perform(const AddNonfinite& op);
/// x = deviation · N(0, 1), element (row, col) from the draws of `key` alone. [math/normal.h]
void perform(const FillNormal& op);
void perform(const DecideStep& op);

}  // namespace ng::ref
