// The arithmetic of an update on a stretch of FP32 values, each operation rounded once in the order
// of the definition (backend/update_operations.h). Outputs may be inputs.
#pragma once

#include <cstdint>

#include "backend/update_operations.h"
#include "math/bf16.h"

namespace ng::cpu {

/// What an optimizer makes of `count` values.
struct OptimizerStretch {
  int64_t count = 0;
  const float* w = nullptr;
  const float* m = nullptr;  ///< moments where the rule has them
  const float* v = nullptr;
  const float* g = nullptr;
  float grad_scale = 1;
  float* new_m = nullptr;
  float* new_v = nullptr;
  float* x = nullptr;  ///< the new weight in FP32; null: nobody asks
  float* u = nullptr;  ///< the direction; null: nobody asks
};
void step_stretch(OptimizerRule rule, const OptimizerNumbers& numbers, const OptimizerStretch& s);

/// x = w + lr·u
void add_scaled(const float* w, const float* u, float lr, int64_t count, float* x);
/// y = lr·u - c; x = w + y
void kahan_sum(const float* w, const float* u, const Bf16* c, float lr, int64_t count, float* y,
               float* x);
/// c = BF16((t - w) - y), t what x was rounded to
void kahan_carry(const float* w, const float* t, const float* y, int64_t count, Bf16* c);
/// m -= (x - t)·(1 - beta1) / (beta1·η), η = lr/(correction1·(sqrt(v/correction2) + eps))
void feed_back(const OptimizerNumbers& numbers, const float* x, const float* t, const float* v,
               int64_t count, float* m);

/// How residuals lie beside elements: in units of the element's ulp over 2^bits. [errata-2, 21]
struct ResidualRules {
  float lowest_binade = 0;  ///< of the elements
  int mantissa_bits = 0;
  float max = 0;
  float scale = 1;  ///< of all elements: value = element · scale
  int bits = 8;
};
/// Here `scale` is a power of two.
/// x = (w + c) + lr·u; c in units beside the elements that are there now.
void residual_sum(const ResidualRules& rules, const float* w, const int8_t* c, const float* u,
                  float lr, int64_t count, float* x);
/// c = floor((x - w')/unit + R·2^-16); 2^(bits-1) moves the element on. `draws`: R, 16 bits.
void residual_carry(const ResidualRules& rules, const float* x, const uint16_t* draws,
                    int64_t count, float* elements, int8_t* c);
/// The same beside elements whose scale may be any number, so that their values w are rounded: sums
/// and quotients in FP64, one element after another.
void residual_sum_in_fp64(const ResidualRules& rules, const float* w, const float* elements,
                          const int8_t* c, const float* u, float lr, int64_t count, float* x);
void residual_carry_in_fp64(const ResidualRules& rules, const float* x, const float* w,
                            const uint16_t* draws, int64_t count, float* elements, int8_t* c);

/// Σ x², and Σ (a - b)², in FP64.
[[nodiscard]] double sum_of_squares(const float* x, int64_t count);
[[nodiscard]] double squared_distance(const float* a, const float* b, int64_t count);

/// Σ of an update over `count` values, in FP64: Δ = after - before, Δ* = lr·u.
void add_to_report(const float* before, const float* after, const float* u, float lr, int64_t count,
                   UpdateReport& report);

}  // namespace ng::cpu
