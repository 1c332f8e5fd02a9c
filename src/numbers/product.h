// Products on the cpu backend's GEMM: of matrices rounded on the way, or of narrow numbers made
// before. [formats.md §9, "Accumulation rule"]
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "backend/cpu/workspace.h"
#include "numbers/narrow_matrix.h"

namespace ng {

/// What K is padded to in a product of operands cast so: whole blocks of both, whole transforms.
[[nodiscard]] int64_t k_multiple(const Operand& a, const Operand& b, const Hadamard& hadamard);

/// A GEMM operand and its memory.
class Factor {
 public:
  /// `source` cast by `spec`: (rows, k), for Contract::rows (k, rows). It must outlive the factor
  /// where the backend reads it in place.
  Factor(cpu::Workspace& workspace, const OperandSpec& spec, Rows<const float> source,
         const RandomKey& key);
  /// The numbers of `matrix`, whose sizes are those of `spec` (k before padding) and whose elements
  /// are_operand(); nothing is rounded again.
  Factor(const OperandSpec& spec, const NarrowMatrix& matrix, Threads threads);

  [[nodiscard]] const PackedOperand& packed() const { return packed_; }
  /// Of the rounding; zero for numbers made before.
  [[nodiscard]] const OperandStats& counts() const { return counts_; }

 private:
  struct Release {
    size_t bytes;
    void operator()(std::byte* memory) const;
  };
  explicit Factor(const OperandSpec& spec);

  PackedOperand packed_;
  std::unique_ptr<std::byte, Release> storage_;
  OperandStats counts_;
};

/// Whether the GEMM takes these numbers as they are: signed elements that are no powers of two, no
/// integer at -2^(bits - 1), which no rounding gives, and block scales of their kind.
[[nodiscard]] bool are_operand(const NarrowMatrix& matrix);

/// y (M, N), row by row: A · Bᵀ, K along the dimension that each matrix names in `along`; prescales
/// and the transform that both went through are undone. Bits are those of format/dot.h's
/// general_dot. For matrices of one K whose numbers are_operand() and of whose blocks along K the
/// larger is a multiple of the smaller.
[[nodiscard]] std::vector<float> multiply(const NarrowMatrix& a, const NarrowMatrix& b,
                                          const Hadamard& hadamard, Threads threads);

}  // namespace ng
