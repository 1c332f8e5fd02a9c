// A model as a user names it: a folder in Hugging Face's layout, quantized or not, a PEFT folder of
// adapters beside such a one, or a GGUF file.
#pragma once

#include <string>
#include <vector>

#include "io/hf/folder.h"
#include "io/model_name.h"
#include "model/config.h"

namespace ng::io {

/// Sizes of the model. Throws Error naming file and key, or that there is nothing of the name.
[[nodiscard]] ModelConfig read_model_config(const ModelName& model);

/// All its parameters, of `config`, as FP32: what codes and scales stand for, adapters merged in.
/// Throws Error for what is wrong with names, shapes and dtypes before a value is read.
[[nodiscard]] ParameterReader open_model_weights(const ModelName& model, const ModelConfig& config);

/// What a model's files hold beside it that is not read, in sentences. Throws as
/// open_model_weights.
[[nodiscard]] std::vector<std::string> left_out_of_model(const ModelName& model,
                                                         const ModelConfig& config);

/// Throws Error where neither a folder with a model or adapters nor a GGUF file has the name, or a
/// base is named that nothing stands beside.
void require_model(const ModelName& model);
/// What says a model's sizes: itself, or the base of a PEFT folder.
[[nodiscard]] std::string sizes_place(const ModelName& model);
/// What holds its tokenizer: itself, or the base of a PEFT folder without a tokenizer.json.
[[nodiscard]] std::string tokenizer_place(const ModelName& model);

}  // namespace ng::io
