// A matrix on its way into GEMMs, together with the operands made from it so far.
#pragma once

#include <array>
#include <cstdint>

#include "run/run.h"

namespace ng {

/// A packed operand and what keeps its memory alive.
struct Prepared {
  PackedOperand packed;
  RandomKey key;   ///< of its draws
  Tensor storage;  ///< empty where the backend reads the source in place
  Tensor source;   ///< only where it does
  [[nodiscard]] explicit operator bool() const { return packed.spec.rows > 0; }
};

/// Makes an operand from `values`; `owner` keeps them alive (empty: they are persistent).
[[nodiscard]] Prepared prepare_operand(Run& run, const Tensor& owner, ConstView values,
                                       const OperandSpec& spec, const PrepareContext& context);

/// What an operand is made by.
struct OperandRequest {
  OperandSpec spec;
  PrepareContext context;
};

/// An operand is identified by (tensor, cast, contracted dimension, draws) and made once: q, k and
/// v projections share one Q(x).
class Source {
 public:
  /// `tensor` is the id under which the values draw: their producer's.
  Source(Tensor owner, uint32_t tensor) : Source(owner, owner.view(), tensor) {}
  /// `first_row`: where the values begin in a whole that is made in pieces, for the draws.
  Source(Tensor owner, ConstView values, uint32_t tensor, int64_t first_row = 0)
      : owner_(std::move(owner)), values_(values), tensor_(tensor), first_row_(first_row) {}

  /// Rows [first, first + count) on their own, with the draws that they have in the whole.
  [[nodiscard]] Source part(int64_t first, int64_t count) const {
    return {owner_, values_.slice(first, count), tensor_, first_row_ + first};
  }

  [[nodiscard]] ConstView values() const { return values_; }
  [[nodiscard]] uint32_t tensor() const { return tensor_; }
  [[nodiscard]] const Tensor& owner() const { return owner_; }
  [[nodiscard]] int64_t first_row() const { return first_row_; }

  /// The operand, made at the first request. The reference is valid until the next request.
  [[nodiscard]] const Prepared& operand(Run& run, const OperandSpec& spec,
                                        const PrepareContext& context);
  /// Makes both for requests to come, at once. Neither was made before or has delayed scales.
  void make_both(Run& run, const OperandRequest& first, const OperandRequest& second);

 private:
  [[nodiscard]] Prepared& next_slot() { return made_[next_++ % made_.size()]; }

  Tensor owner_;
  ConstView values_;
  uint32_t tensor_;
  int64_t first_row_;
  std::array<Prepared, 4> made_;  // more kinds of operand than these are simply made again
  size_t next_ = 0;
};

}  // namespace ng
