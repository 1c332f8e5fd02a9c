// A folder with low-rank adapters as PEFT has them: adapter_config.json, adapter_model.safetensors,
// and the tokenizer's files. [PEFT 0.21, tuners/lora]
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "io/hf_folder.h"
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

}  // namespace ng::io
