// What other programs wrote, as plain FP32. [interop.md 1.6, 2]
#pragma once

#include <string>
#include <vector>

#include "io/model_name.h"

namespace ng {

/// A GGUF file or a quantized folder as a plain folder in FP32, which appears whole or not at all;
/// what the user should know of it. Throws Error naming what is damaged or not supported.
std::vector<std::string> import_model(const io::ModelName& in, const std::string& out);

/// Every tensor of a GGUF or safetensors file or a folder of any architecture as FP32, decoded,
/// into a safetensors file: io::decoded_tensors(). What the user should know of it.
std::vector<std::string> import_tensors(const std::string& in, const std::string& out);

/// Whether a file is one that import_tensors wrote.
[[nodiscard]] bool is_import(const std::string& path);

}  // namespace ng
