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
  RandomKey key;   ///< of purpose 8
  float amax = 0;  ///< of all of a tensor of which these are a part; 0: these are all
};

/// w + D, D = fl(lr·u)
[[nodiscard]] std::vector<float> sum_of(const Before& before);
void round_nearest(const UpdatedWeight& weight, const Before& before);
void round_stochastic(const UpdatedWeight& weight, const Before& before);
void round_kahan(const UpdatedWeight& weight, const Before& before);
void round_residual(const UpdatedWeight& weight, const Before& before);
/// w + c of such a weight.
[[nodiscard]] std::vector<float> with_residual(const UpdatedWeight& weight);
/// Returns α.
double round_precision_aware(const UpdatedWeight& weight, const Before& before);
/// Of a weight into which x was rounded: the error goes into m.
void feed_back(const Update& op, std::span<const float> x, std::span<const float> v,
               std::span<float> m);

}  // namespace ng::ref
