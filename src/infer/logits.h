// What a model says to every token of a sequence.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/model.h"
#include "run/run.h"

namespace ng {

class LogitsReader {
 public:
  /// Takes memory for a context of tokens; `run` and `model` must outlive this.
  LogitsReader(Run& run, Model& model);

  /// Logits (tokens, vocabulary) of 1 to a context of tokens, ids below the vocabulary. In the
  /// numbers of the model's phase, stochastic casts to nearest.
  [[nodiscard]] std::vector<float> read(std::span<const int32_t> tokens);

 private:
  Run& run_;
  Model& model_;
  int32_t* tokens_;  // backend memory
};

}  // namespace ng
