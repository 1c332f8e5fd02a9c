// The matrix units of a card, by cuBLASLt.
#pragma once

#include <string>

#include "backend/cuda/matmul.h"
#include "backend/operation_words.h"

namespace ng::cuda {

class Units {
 public:
  Units() = default;
  virtual ~Units() = default;
  Units(const Units&) = delete;
  Units& operator=(const Units&) = delete;

  [[nodiscard]] virtual const Card& card() const = 0;
  /// Memory of the card that the library's algorithms have for themselves.
  [[nodiscard]] virtual size_t bytes() const { return 0; }
  /// Behind the kernels that were launched.
  virtual void multiply(const Matmul& product) = 0;
  /// Why the library does not compute such a product, whose operands need lie nowhere yet; empty:
  /// it does.
  [[nodiscard]] virtual std::string refusal(const Matmul& product) = 0;
  /// By what those for FP8 and FP4 add.
  [[nodiscard]] virtual SumUnits of_fp8() const { return SumUnits::fp8; }
};

}  // namespace ng::cuda
