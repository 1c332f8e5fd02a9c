// What a GEMM gives, as narrow numbers before anything reads it. [rivals.md §2.9]
#pragma once

#include "nn/source.h"

namespace ng {

/// y = or += Q(what a GEMM gives), where a recipe's `output` is an operand. The GEMM writes FP32 of
/// its own (into_made()), and finish() takes it from there.
class NarrowOutput {
 public:
  /// `target`: a Gemm whose y, into and round say where the result goes. `key`: of the draws.
  NarrowOutput(Run& run, const Operand& cast, const Gemm& target, const RandomKey& key);

  /// `target` with FP32 as its y, overwritten, and all else that it says.
  [[nodiscard]] Gemm into_made(Gemm target) const;
  [[nodiscard]] const View& y() const { return y_; }
  /// After the GEMM, and what its result passes.
  void finish(Run& run) const;
  /// Behind finish(): what writes the narrowed result to `y`, whose rows follow one another.
  [[nodiscard]] Store last_into(const View& y) const {
    return {stored_plainly(y), narrow_.view, {}};
  }

 private:
  View y_;
  Into into_;
  Compute round_;
  RandomKey key_;
  Tensor made_;
  CastTensor narrow_;
};

}  // namespace ng
