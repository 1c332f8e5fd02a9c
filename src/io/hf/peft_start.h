// Adapters of a PEFT folder as training goes on from them.
#pragma once

#include <string>

#include "io/hf/folder.h"
#include "io/hf/peft_tensors.h"
#include "model/config.h"

namespace ng::io {

class PeftStart {
 public:
  /// Throws Error naming file and tensor as open_peft_weights does, and for what cannot be trained
  /// here: DoRA, adapters outside of blocks, biases alone, an embedding of another size.
  PeftStart(const std::string& folder, const ModelConfig& base);

  /// Ranks, alphas and layers, these by their whole names.
  [[nodiscard]] const Lora& lora() const { return lora_; }
  /// Gives `write` the rows of what is trained, by its index in the parameters of a model with
  /// lora(): those of the architecture, then A and B.
  void read(const ParameterWriter& write) const;

 private:
  void take(const PeftChange& change, const ParameterSpec& spec);

  PeftConfig peft_;
  PeftTensors tensors_;
  ModelConfig config_;
  Lora lora_;
};

}  // namespace ng::io
