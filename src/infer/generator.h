// Text from a model, token by token: the prompt once, then one position at a time with a KV cache,
// by one program and with operands of the weights that are made once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "infer/sampler.h"
#include "model/model.h"
#include "run/run.h"

namespace ng {

class Generator {
 public:
  /// Takes memory for a window of `most` tokens; 0: of the model's context, which it is at most.
  Generator(Run& run, Model& model, int64_t most = 0);
  ~Generator();

  /// Continues `prompt` (at least one token, ids below the vocabulary) by up to `count` tokens and
  /// hands each to `sink`, which returns false to stop. Past the window the second half of it
  /// goes on as the new prompt.
  void generate(std::span<const int32_t> prompt, int64_t count, const SamplingSettings& settings,
                const std::function<bool(int32_t)>& sink);

 private:
  class Steps;
  /// Logits of the last of `tokens`, which stand at positions first, first + 1, ...
  [[nodiscard]] std::vector<float> forward(std::span<const int32_t> tokens, int64_t first);
  void pass(const Batch& batch);

  Run& run_;
  Model& model_;
  KvCache cache_;
  int32_t* tokens_ = nullptr;  // backend memory: at most a context
  View logits_;                // (1, vocabulary) FP32
  std::optional<Program> step_program_;
  std::unique_ptr<Steps> steps_;  // while token comes after token
};

}  // namespace ng
