// What an exported folder has beside its weights: configurations, and the tokenizer's files.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "io/model_name.h"
#include "model/config.h"

namespace ng::io {

/// Writes config.json, which is the model's own where that is a folder, with this dtype, and
/// `quantization` or, where that is null, without; and generation_config.json. Special tokens that
/// they lack are the tokenizer's.
void write_configs(const std::string& folder, const ModelName& model, const ModelConfig& config,
                   std::string_view torch_dtype, const OrderedJson& quantization);

/// The tokenizer's files and chat templates of a folder, or those of a GGUF file; why they are not
/// written, where that has a tokenizer that this program does not know.
std::optional<std::string> add_tokenizer_files(const std::string& folder, const ModelName& model);

}  // namespace ng::io
