// What a low-rank adapter adds to a linear layer whose weight is frozen: scale·(x·Aᵀ)·Bᵀ, with A
// (rank, in) and B (out, rank). [Hu et al. 2022, LoRA]
//
//   u = scale·x·Aᵀ (T, rank)    y += u·Bᵀ
//   dB = dyᵀ·u,  du = scale·dy·B,  dA = duᵀ·x,  dx += du·A
//
// u is FP32 and is made again in the backward pass: that is cheaper than keeping it.
#pragma once

#include "nn/linear.h"

namespace ng {

class Adapter {
 public:
  Adapter(Linear a, Linear b, float scale) : a_(std::move(a)), b_(std::move(b)), scale_(scale) {}

  /// y += scale·(x·Aᵀ)·Bᵀ
  void fprop(Run& run, const View& y, Source& x);
  /// dx += scale·(dy·B)·A, and the gradients of A and B.
  void backward(Run& run, const View& dx, Source& x, Source& dy);

  void set_phase(Run& run, size_t phase);

 private:
  [[nodiscard]] Tensor inner(Run& run, Source& x);
  void scale(Run& run, const View& u) const;

  Linear a_, b_;
  float scale_;
};

}  // namespace ng
