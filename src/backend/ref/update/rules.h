// How w + D is rounded into a weight without a wider copy: one file per rule, each with its
// equation. [recipes.md §5; errata-2, 20-24]
#pragma once

#include <span>
#include <vector>

#include "backend/ref/number.h"
#include "backend/ref/update/store.h"

namespace ng::ref {

/// A weight before its update, the whole tensor row by row.
struct Before {
  std::span<const float> w;  ///< as stored
  std::span<const float> u;  ///< the weight is to become w + lr·u
  float lr = 0;
  RandomKey key;  ///< of purpose 8
};

/// w' = RN(w + D) or SR(w + D), D = fl(lr·u)
void round_sum(const UpdatedWeight& weight, const Before& before);
/// y = D - c; w' = RN(w + y); c' = BF16((w' - w) - y)
void round_kahan(const UpdatedWeight& weight, const Before& before);
/// x = (w + c) + D; w' = RN(x); c' = x - w' in units of ulp(w')/2^bits, rounded stochastically
void round_residual(const UpdatedWeight& weight, const Before& before);
/// w + c of such a weight.
[[nodiscard]] std::vector<float> with_residual(const UpdatedWeight& weight);
/// w' = RN(w + αu) with ‖w' - w‖ = lr·‖u‖; returns α.
double round_precision_aware(const UpdatedWeight& weight, const Before& before);

}  // namespace ng::ref
