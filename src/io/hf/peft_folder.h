// A folder with low-rank adapters as PEFT has them: adapter_config.json, adapter_model.safetensors,
// and the tokenizer's files; written, and read as the model that base and adapters are.
// [PEFT 0.21, tuners/lora]
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "io/hf/folder.h"
#include "model/config.h"

namespace ng::io {

inline constexpr std::string_view kPeftConfig = "adapter_config.json";
inline constexpr std::string_view kPeftWeights = "adapter_model.safetensors";

struct PeftModel {
  const ModelConfig& model;
  std::span<const ParameterSpec> adapters;  ///< A and B of each layer, one after the other
  std::string base;                         ///< the folder whose weights they stand beside
};

/// adapter_config.json: layers by the ends of their names where every block has an adapter there,
/// else by whole names.
[[nodiscard]] std::string peft_config_text(const PeftModel& peft);

/// Writes a folder that appears whole or not at all, where require_replaceable lets it. `read`
/// gives rows of adapters[index]. Throws Error where a finite value does not fit the dtype.
void write_peft_folder(const std::string& folder, const PeftModel& peft,
                       const ParameterReader& read, const HfWriteOptions& options = {});

/// Whether a folder has an adapter_config.json; then it is what transformers takes it for.
[[nodiscard]] bool is_peft_folder(const std::string& folder);

/// The folder of its base model, a path as seen from where the program runs, as for PEFT. Throws
/// Error naming file and key where it is none, or another PEFT folder, and for adapters that mean
/// more than A and B of linear layers.
[[nodiscard]] std::string peft_base(const std::string& folder);

/// The parameters of the base, whose config is `config`, with the adapters merged in:
/// W + alpha/r·B·A, or alpha/√r with use_rslora, summed in FP64 and rounded once. Throws Error
/// naming file and tensor for what is missing, of another shape, or no adapter of a block's linear
/// layer.
[[nodiscard]] ParameterReader open_peft_weights(const std::string& folder,
                                                const ModelConfig& config);

}  // namespace ng::io
