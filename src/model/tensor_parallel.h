// What of each parameter a rank of a tensor-parallel group has. [Shoeybi et al. 2019, Megatron-LM;
// distributed.md §5]
#pragma once

#include <string_view>
#include <vector>

#include "model/config.h"

namespace ng {

/// Throws Error{place, ...} where `ranks` do not divide heads and the feed-forward's width.
void require_tensor_parallel(const ModelConfig& config, int64_t ranks, std::string_view place);

/// Shapes on one of `ranks` ranks: of projections, gate and up their share of the outputs and the
/// biases, of attention's and the feed-forward's outputs their share of the inputs, of embedding
/// and head their share of the vocabulary, rounded up; positions, norms and biases of outputs
/// whole.
[[nodiscard]] std::vector<ParameterSpec> tensor_parallel_parts(std::vector<ParameterSpec> specs,
                                                               int64_t ranks);

}  // namespace ng
