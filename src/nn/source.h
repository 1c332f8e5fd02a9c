// A matrix on its way into GEMMs, together with the operands made from it so far.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "backend/backend_memory.h"
#include "nn/amax_slot.h"
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

/// Memory of an operand that outlives the program in which it is made.
class OperandMemory {
 public:
  /// Room for so many bytes, in which nothing is kept.
  [[nodiscard]] std::byte* room(Backend& backend, size_t bytes);
  [[nodiscard]] size_t size() const { return memory_ ? memory_->size() : 0; }

 private:
  std::unique_ptr<BackendMemory> memory_;
};

/// Makes an operand from `values`; `owner` keeps them alive (empty: they are persistent). It lies
/// in `memory`; null: in that of the step.
[[nodiscard]] Prepared prepare_operand(Run& run, const Tensor& owner, ConstView values,
                                       const OperandSpec& spec, const PrepareContext& context,
                                       OperandMemory* memory = nullptr);

/// What an operand is made by.
struct OperandRequest {
  OperandSpec spec;
  PrepareContext context;
};

/// Makes two operands of the same `values` at once, which may spare reading them twice; neither has
/// delayed scales.
[[nodiscard]] std::array<Prepared, 2> prepare_operands(
    Run& run, const Tensor& owner, ConstView values, const std::array<OperandRequest, 2>& by,
    const std::array<OperandMemory*, 2>& memory = {});

/// A tensor of the step that is stored by a cast, and what keeps its memory alive.
struct CastTensor {
  Tensor elements, scales, level;  ///< the last two where the cast has them
  View view;                       ///< with its scales
  Operand cast;
  [[nodiscard]] explicit operator bool() const { return view.rows > 0; }
};
/// Room for rows × cols values by `cast`.
[[nodiscard]] CastTensor cast_tensor(Run& run, int64_t rows, int64_t cols, const Operand& cast,
                                     MemoryKind kind);
/// Of parts that there are.
[[nodiscard]] CastTensor cast_tensor_of(const Operand& cast, Tensor elements, Tensor scales,
                                        Tensor level);

/// Whether the mean of what an operand by `spec` is made of is taken off as it is read.
[[nodiscard]] bool takes_off_mean(const Run& run, const OperandSpec& spec);

/// An operand is identified by (tensor, cast, contracted dimension, draws) and made once: q, k and
/// v projections share one Q(x).
class Source {
 public:
  /// `tensor` is the id under which the values draw: their producer's.
  Source(Tensor owner, uint32_t tensor) : Source(owner, owner.view(), tensor) {}
  /// `first_row`: where the values begin in a whole that is made in pieces, for the draws.
  Source(Tensor owner, ConstView values, uint32_t tensor, int64_t first_row = 0)
      : owner_(std::move(owner)), values_(values), tensor_(tensor), first_row_(first_row) {}

  /// Values that are stored in few bits, with the cast that they came to lie there by. An operand
  /// of that cast takes their codes and scales as they are.
  Source(const CastTensor& stored, uint32_t tensor);

  /// An operand of `rows` values that are gone: GEMMs that read it find it there. It is of those
  /// without `mean`, unless that is empty.
  Source(Prepared operand, int64_t rows, uint32_t tensor, const Tensor& mean = {});

  /// Rows [first, first + count) on their own, with the draws that they have in the whole.
  [[nodiscard]] Source part(int64_t first, int64_t count) const {
    Source rows(owner_, values_.slice(first, count), tensor_, first_row_ + first);
    if (count == values_.rows) rows.amax_ = amax_;
    return rows;
  }

  /// The largest magnitude of the values, which their producer leaves there.
  void know_amax(AmaxSlot amax) { amax_ = std::move(amax); }
  [[nodiscard]] bool knows_amax() const { return static_cast<bool>(amax_); }
  /// What an operand by `spec` is told of it; null: it is not known.
  [[nodiscard]] const float* amax_for(const OperandSpec& spec) const { return amax_.of(spec); }

  /// (1, cols) FP32 that operands are made without; empty: there is none.
  [[nodiscard]] const Tensor& mean() const { return mean_; }

  [[nodiscard]] int64_t rows() const { return stored_ ? stored_.view.rows : values_.rows; }
  /// Whether there are values, and not an operand alone.
  [[nodiscard]] bool has_values() const { return values_.data != nullptr || stored_; }
  /// Of a source that is not stored in few bits; its mean is not taken off.
  [[nodiscard]] ConstView values() const { return values_; }
  [[nodiscard]] OperandOrigin origin() const {
    return {values_, mean_ ? ConstView(mean_.view()) : ConstView()};
  }
  [[nodiscard]] bool is_stored() const { return static_cast<bool>(stored_); }
  [[nodiscard]] const CastTensor& stored() const { return stored_; }
  /// Whether an operand by `spec` takes what is stored.
  [[nodiscard]] bool is_taken_by(const OperandSpec& spec) const;
  [[nodiscard]] uint32_t tensor() const { return tensor_; }
  [[nodiscard]] const Tensor& owner() const { return owner_; }
  [[nodiscard]] int64_t first_row() const { return first_row_; }

  /// Whether it was made and would not be made again.
  [[nodiscard]] bool has_operand(const OperandSpec& spec, const RandomKey& key) const {
    return find_operand(spec, key) != nullptr;
  }
  /// The operand, made at the first request. The reference is valid until the next request.
  [[nodiscard]] const Prepared& operand(Run& run, const OperandSpec& spec,
                                        const PrepareContext& context);
  /// What an operand by `spec` is made of, and in `context` whose scales it takes and what is taken
  /// off it.
  [[nodiscard]] ConstView values_for(Run& run, const OperandSpec& spec, PrepareContext& context);
  /// That which was made last; of a source of which one was made.
  [[nodiscard]] const Prepared& newest() const {
    return made_[(next_ + made_.size() - 1) % made_.size()];
  }
  /// Its values are already those that the forward GEMM read. [linear.md 3]
  [[nodiscard]] Source as_read() const {
    Source read = *this;
    read.is_read_ = true;
    return read;
  }
  [[nodiscard]] bool is_read() const { return is_read_; }
  /// The same values, of which operands are made without their mean over rows, which is rounded to
  /// `round` first.
  [[nodiscard]] Source& centered(Run& run, Compute round);
  /// Makes operands of `sources`, which may be the same and have the same values, at once and for
  /// requests to come. Neither was made before or has delayed scales; of values with a mean it
  /// takes_off_mean().
  static void make_both(Run& run, const std::array<Source*, 2>& sources,
                        const std::array<OperandRequest, 2>& by);

 private:
  [[nodiscard]] Prepared& next_slot() { return made_[next_++ % made_.size()]; }

  [[nodiscard]] const Prepared* find_operand(const OperandSpec& spec, const RandomKey& key) const;
  /// What an operand is made of; `taken`: elements without their scales.
  [[nodiscard]] ConstView read(Run& run, bool taken);
  void find_means(Run& run);

  Tensor owner_;  ///< of values_
  ConstView values_;
  CastTensor stored_;
  Tensor elements_;  ///< its elements without their scales, where an operand takes those
  uint32_t tensor_;
  int64_t first_row_;
  AmaxSlot amax_;
  bool is_read_ = false;
  std::array<Prepared, 4> made_;  // more kinds of operand than these are simply made again
  size_t next_ = 0;
  Tensor mean_;
  Tensor rest_;  ///< values without it, where an operand does not read them as they lie
  std::array<std::shared_ptr<Source>, 2> centered_;  // by how the mean is rounded
};

}  // namespace ng
