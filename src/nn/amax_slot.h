// The largest magnitude of a tensor of the step, which its producer finds for the operands whose
// scale is of all of it.
#pragma once

#include <utility>

#include "run/run.h"

namespace ng {

/// Whether an operand's scale is made of the largest magnitude of what it is made of, as it lies
/// there.
[[nodiscard]] bool is_scaled_by_source(const OperandSpec& spec);

/// Room for one, in the memory of the step.
class AmaxSlot {
 public:
  /// None: nobody reads it.
  AmaxSlot() = default;
  AmaxSlot(Run& run, bool is_read);

  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(memory_); }
  /// What the producer is told; null: it is not wanted.
  [[nodiscard]] StoredAmax* place() const { return reinterpret_cast<StoredAmax*>(memory_.bytes()); }
  /// What an operand by `spec` is told; null: it finds by itself what it needs.
  [[nodiscard]] const float* of(const OperandSpec& spec) const;
  /// Finds that of operands by `spec` alone, where no producer did.
  void find(Run& run, const OperandSpec& spec, const ConstView& values) const;

 private:
  [[nodiscard]] float* number_for(const OperandSpec& spec) const;
  Tensor memory_;
};

/// Finds the number of two operands of the same values, where both read it; else none, or where
/// ranks have parts of what it is of.
[[nodiscard]] AmaxSlot amax_of_both(Run& run, const OperandSpec& a, const OperandSpec& b,
                                    const ConstView& values);

}  // namespace ng
