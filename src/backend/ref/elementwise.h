// Filling, copying, adding and summing.
#pragma once

#include "backend/backend.h"

namespace ng::ref {

void fill(View x, float value);
void copy(View y, ConstView x);
/// y = a + b
void add(View y, ConstView a, ConstView b, Compute compute);

/// sum[c] += Σ_t x[t][c]: the sum in FP64, rounded once, then one FP32 addition.
void add_column_sums(float* sum, ConstView x);
/// *sum += Σ x and Σ x², in FP64. Element i of the row-major tensor goes to lane i % 16 of chunk
/// i / 4096; lanes fold by +8, +4, +2, +1, chunks pairwise by index. [recipes.md §0]
void add_sum(double* sum, ConstView x);
void add_sum_of_squares(double* sum, ConstView x);
/// *count += number of NaN and infinite values.
void add_nonfinite(uint64_t* count, ConstView x);
/// x = deviation · N(0, 1), element (row, col) from the draws of `key` alone. [math/normal.h]
void fill_normal(View x, float deviation, const RandomKey& key);

}  // namespace ng::ref
