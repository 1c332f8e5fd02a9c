// What of each parameter a rank of a tensor-parallel group has. [Shoeybi et al. 2019, Megatron-LM;
// distributed.md §5]
#pragma once

#include <string_view>
#include <vector>

#include "model/config.h"
#include "nn/linear.h"
#include "nn/tensor_group.h"
#include "recipe/recipe.h"

namespace ng {

/// Throws Error{place, ...} where `ranks` do not divide heads and the feed-forward's width.
void require_tensor_parallel(const ModelConfig& config, int64_t ranks, std::string_view place);

/// Shapes on rank `part` of `ranks`: of projections, gate and up its share of the outputs and the
/// biases, of attention's and the feed-forward's outputs its share of the inputs. Embedding, head,
/// positions, norms and biases of outputs are whole: they work on a slice of the tokens.
[[nodiscard]] std::vector<ParameterSpec> tensor_parallel_parts(std::vector<ParameterSpec> specs,
                                                               int64_t ranks, int64_t part = 0);

/// What travels in a tensor group: `inputs` as communication.activations says, sums of parts as
/// communication.sums, in BF16 where that is FP32 but activations are not.
/// Gradients travel as the GEMMs of layer `to`, whose inputs are divided, read them, where that
/// takes as many bits: rounded once, then. Else as `inputs`.
[[nodiscard]] TokenWires token_wires(const Recipe& recipe);
[[nodiscard]] TokenWires token_wires(const Recipe& recipe, const Linear& to);

}  // namespace ng
