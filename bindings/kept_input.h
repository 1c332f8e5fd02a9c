// What the forward product of a layer read of its input, in few bits until the backward pass.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "backend/operand_spec.h"
#include "base/threads.h"
#include "tensor/rows.h"

namespace ng::python {

/// An operand (T, cols) as bytes, for whoever keeps them: its codes as one bit string, the scales
/// as the cast stores them, the scale of the tensor.
class KeptInput {
 public:
  /// `cols` as the operand has them, or fewer.
  KeptInput(const Operand& cast, int64_t cols) : cast_(cast), cols_(cols) {}

  /// Whether that takes less than the input itself: elements of at most 16 bits, of one kind, with
  /// one scale of the second level at most.
  [[nodiscard]] static bool is_narrow(const Operand& cast) {
    return cast.element->bits <= 16 && cast.other == nullptr &&
           cast.tensor_block.kind == Block::Kind::tensor;
  }
  /// Of T rows, so that bytes() = ⌈T · bits_of_row / 8⌉ + ⌈T / rows_of_block⌉ · scales + others.
  struct Size {
    int64_t bits_of_row = 0;
    int64_t rows_of_block = 1;
    int64_t scales = 0;  ///< bytes of those of one row of blocks
    int64_t others = 0;
  };
  [[nodiscard]] Size size() const;
  [[nodiscard]] int64_t bytes(int64_t tokens) const;

  /// Fills `kept`, bytes(T) of them, with what ng::cpu has packed.
  void write(const PackedOperand& packed, std::span<uint8_t> kept, Threads threads) const;
  /// The values of it, the prescale undone.
  void read(std::span<const uint8_t> kept, Rows<float> values, Threads threads) const;

 private:
  Operand cast_;
  int64_t cols_;
};

}  // namespace ng::python
