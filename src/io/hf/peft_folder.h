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
  std::span<const ParameterSpec> modules;   ///< of layers that were trained whole
  std::string base;                         ///< the folder whose weights they stand beside
};

/// adapter_config.json: layers by the ends of their names where every block has an adapter there,
/// or another rank or alpha, else by whole names.
[[nodiscard]] std::string peft_config_text(const PeftModel& peft);

/// Writes a folder that appears whole or not at all, where require_replaceable lets it. `read`
/// gives rows of adapters[index], modules behind them. Throws Error where a finite value does not
/// fit the dtype.
void write_peft_folder(const std::string& folder, const PeftModel& peft,
                       const ParameterReader& read, const HfWriteOptions& options = {});

/// Whether a folder has an adapter_config.json; then it is what transformers takes it for.
[[nodiscard]] bool is_peft_folder(const std::string& folder);

/// What its configuration calls the model that the adapters stand beside; empty: nothing. Throws
/// Error for a configuration that means other weights than open_peft_weights makes.
[[nodiscard]] std::string peft_base(const std::string& folder);

/// Sizes of base and adapters together: those of `base`, but for rows that the embedding has been
/// given and a head that is no longer tied to it. Throws Error as open_peft_weights does.
[[nodiscard]] ModelConfig peft_model_config(const std::string& folder, const ModelConfig& base);

/// The parameters of peft_model_config(folder, base), `read` those of the base: modules that were
/// saved whole in place of its own, and adapters merged in. V = W + s·B·A, of DoRA m·V/‖V‖ by the
/// rows of a linear layer, by the columns of an embedding; s = alpha/r, or alpha/√r with
/// use_rslora; a bias + s·B's. Values of files are FP32, all sums, norms and products FP64, and the
/// result is rounded once. Throws Error naming file and tensor for what is missing, of another
/// shape, or nothing of the base.
[[nodiscard]] ParameterReader open_peft_weights(const std::string& folder, const ModelConfig& base,
                                                const ParameterReader& read);

}  // namespace ng::io
