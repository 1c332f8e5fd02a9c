// What passes between the ranks that divide a layer. Between the layers each has a slice of the
// tokens: rank r of T rows [r·n/T, (r + 1)·n/T). Where the outputs of a layer are divided its input
// is gathered, where its inputs are divided all have a part of every sum of outputs.
// [Korthikanti et al. 2022, sequence parallelism; Peng et al. 2023, FP8-LM; recipes.md §4.2]
#pragma once

#include <algorithm>
#include <vector>

#include "nn/batch.h"
#include "nn/source.h"

namespace ng {

/// As what tokens travel in a tensor group. [recipes.md §7, `communication`]
struct TokenWires {
  Operand inputs;                     ///< of layers whose outputs are divided
  Operand gradients;                  ///< of outputs of layers whose inputs are divided
  Operand sums = operand_of("bf16");  ///< of parts of sums
};

/// A scale of all of a tensor, whatever blocks have: ranks that have parts of it agree on one.
[[nodiscard]] bool has_scale_of_all(const Operand& cast);

/// Which tokens of all this rank has; all of them, where it is alone.
struct TokenSlice {
  int64_t first = 0, count = 0;
};
[[nodiscard]] TokenSlice own_tokens(const Run& run, int64_t all);

/// Tokens that have consecutive positions, in sequences of one length.
struct TokenRun {
  TokenSlice tokens;
  Positions at;
};
/// body(run) for a slice of a batch as such runs: parts of a sequence at its ends, whole ones
/// between.
template <class Body>
void for_runs(const TokenSlice& slice, const Positions& at, const Body& body) {
  const int64_t end = slice.first + slice.count;
  for (int64_t token = slice.first; token < end;) {
    const int64_t place = token % at.length;
    const bool is_whole = place == 0 && token + at.length <= end;
    const int64_t sequences = is_whole ? (end - token) / at.length : 1;
    const int64_t length = is_whole ? at.length : std::min(at.length - place, end - token);
    body(TokenRun{.tokens = {.first = token, .count = sequences * length},
                  .at = {.sequences = sequences, .length = length, .first = at.first + place}});
    token += sequences * length;
  }
}

/// y = x, of which ranks have parts, with one scale for all where a scale is of the whole.
void store_by_group(Run& run, const Stored& y, const ConstView& x, const RandomKey& key);

/// The rows of all ranks, one slice after another, each cast to `wire` by its rank: with the scale
/// of the whole where a scale is of all of it, so that codes and scales are those of a cast of the
/// whole. `mine` itself where this rank is alone.
[[nodiscard]] Source gathered(Run& run, const Source& mine, const Operand& wire);

/// The sum over ranks of their `parts` (n, C), of this rank's tokens, as `element`. FP32 or BF16
/// parts are added in FP32 in the order of ranks; others are cast to `wire`, with one scale for all
/// where a scale is of the whole, and added in FP64 (SumOfRanks). The sum is rounded once. `part`
/// itself where this rank is alone, where it is of that element.
[[nodiscard]] Tensor sum_of_own_tokens(Run& run, Tensor part, const Operand& wire,
                                       const ElementFormat& element);

/// Where an operand by `spec` has a scale of all of a tensor that this rank has a part of: what
/// that scale is made of, the largest of the group's. Else nothing.
/// `mean` (may be null) is taken off the part's rows.
[[nodiscard]] Tensor amax_of_group(Run& run, const OperandSpec& spec, const ConstView& part,
                                   const float* mean);

}  // namespace ng
