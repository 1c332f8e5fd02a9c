// What lies beside the weights of an exported folder.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "model/config.h"

namespace ng {

/// config.json: the model's own where it is a folder, else as hf_config_text writes it; with this
/// dtype, and `quantization` or, where that is null, without.
[[nodiscard]] std::string exported_config_text(const std::string& model, const ModelConfig& config,
                                               std::string_view torch_dtype,
                                               const OrderedJson& quantization);

/// The tokenizer's files and generation_config.json of a folder, or the tokenizer of a GGUF file;
/// why that is not written, where it has one that this program does not know.
[[nodiscard]] std::optional<std::string> add_tokenizer_files(const std::string& model,
                                                             const std::string& folder);

}  // namespace ng
