// THE LIST. Every operation that touches tensor elements: a struct of named arguments that says its
// name, what its time counts as, and its outputs of numbers. A backend does them (backend.h);
// timing, dry runs and the search for NaN need nothing else (run/run.h).
//
// Rules for all operations:
// - Views, control blocks and counters lie in backend memory; nothing here returns a scalar.
// - Nothing allocates; scratch was taken in the constructor, operands get their storage passed in.
// - The bits do not depend on the thread count. [docs/architecture.md, "Bit promises"]
// - Arithmetic is FP32, whatever tensors are stored as; every element of an output is rounded once,
//   nearest even, to what it is stored as. An operation whose output is BF16 reads all its inputs,
//   gains and tables too, rounded to BF16 (a GEMM's bias as it is). Parameter gradients, losses and
//   statistics have views of their own, mostly FP32. [recipes.md §7, `compute`]
#pragma once

#include <string_view>
#include <variant>

#include "backend/gemm_operations.h"
#include "backend/layer_operations.h"
#include "backend/noise_operations.h"
#include "backend/rank_operations.h"
#include "backend/tensor_operations.h"
#include "backend/update_operations.h"

namespace ng {

using Operation =
    std::variant<Prepare, FindOperandAmax, PrepareBoth, Unpack, Gemm, TurnBack, RoundingBackward,
                 RollDelayedScale, Embed, EmbedBackward, RopeTable, Rope, Norm, NormBackward, Gelu,
                 GeluBackward, Swiglu, SwigluBackward, Attention, AttentionBackward, CrossEntropy,
                 CrossEntropyLoss, PreferenceLoss, Fill, Clear, Copy, Add, Combine, Normalize,
                 AddColumnSums, FindColumnMeans, SubtractRow, AddSum, AddSumOfSquares, AddNonfinite,
                 FillNormal, DecideStep, Store, FindAmax, StoreGradient, MoveAutoScale, SumOfRanks,
                 CountLargest, Update, FindUpdateMaxima, MoveBlockMoment, MoveMomentum, CheckUpdate,
                 AddNoise, RoundByBits, CountCast, QuantizeByProxy, AddNoiseBackward,
                 FinishNoiseGradient>;

[[nodiscard]] std::string_view name_of(const Operation& operation);
[[nodiscard]] TimeKind time_of(const Operation& operation);

/// f(name, view) of every output of floating-point values that an operation writes.
template <class F>
void for_each_output(const Operation& operation, const F& f) {
  std::visit([&](const auto& op) { op.each_output(f); }, operation);
}

/// f(name, view) of what an operation encodes, which no operation need have written: weights.
template <class F>
void for_each_source(const Operation& operation, const F& f) {
  std::visit(
      [&](const auto& op) {
        if constexpr (requires { op.each_source(f); }) op.each_source(f);
      },
      operation);
}

}  // namespace ng
