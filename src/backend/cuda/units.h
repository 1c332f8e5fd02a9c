// The matrix units of a card, by cuBLASLt.
#pragma once

#include "backend/cuda/matmul.h"

namespace ng::cuda {

class Units {
 public:
  Units() = default;
  virtual ~Units() = default;
  Units(const Units&) = delete;
  Units& operator=(const Units&) = delete;

  [[nodiscard]] virtual const Card& card() const = 0;
  /// Behind the kernels that were launched. What the library refuses, matmul_refusal() has said.
  virtual void multiply(const Matmul& product) = 0;
};

}  // namespace ng::cuda
