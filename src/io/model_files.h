// A model as a user names it: a folder in Hugging Face's layout, quantized or not, or a GGUF file.
#pragma once

#include <string>

#include "io/hf_folder.h"
#include "model/config.h"

namespace ng::io {

/// Sizes of the model. Throws Error naming file and key, or that there is nothing of the name.
[[nodiscard]] ModelConfig read_model_config(const std::string& model);

/// All its parameters, of `config`, as FP32: what codes and scales stand for. Throws Error for what
/// is wrong with names, shapes and dtypes before a value is read.
[[nodiscard]] ParameterReader open_model_weights(const std::string& model,
                                                 const ModelConfig& config);

}  // namespace ng::io
