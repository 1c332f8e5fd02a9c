// Which part of a model a rank has where a pipeline divides its blocks: planned, not trained.
//
// Stage i of P has every P-th part of the blocks, the first the embeddings too, the last the norm
// and the head. Its ranks do one forward and one backward pass in turn, so that it keeps what
// min(A, P - i) of a step's A micro-batches have saved. [Narayanan et al. 2021, PipeDream-Flush]
#pragma once

#include <algorithm>
#include <cstdint>

#include "model/config.h"
#include "nn/parameter.h"

namespace ng {

struct Stage {
  int64_t index = 0, of = 1;

  [[nodiscard]] bool is_last() const { return index + 1 == of; }
  [[nodiscard]] int64_t blocks(const ModelConfig& model) const { return model.layers / of; }
  [[nodiscard]] int64_t first_block(const ModelConfig& model) const {
    return index * blocks(model);
  }
  /// Micro-batches of a step that are between their forward and their backward pass.
  [[nodiscard]] int64_t in_flight(int64_t micros) const { return std::min(micros, of - index); }
  /// A tied embedding lies on the first stage and, as the head, on the last.
  [[nodiscard]] bool has(const ParameterSpec& parameter, const ModelConfig& model) const;
};

/// Share of a step in which a stage waits, of stages that take as long as each other:
/// (P - 1) / (A + P - 1) with A micro-batches. [Huang et al. 2019, GPipe]
[[nodiscard]] inline double bubble_share(int64_t stages, int64_t micros) {
  return static_cast<double>(stages - 1) / static_cast<double>(micros + stages - 1);
}

}  // namespace ng
