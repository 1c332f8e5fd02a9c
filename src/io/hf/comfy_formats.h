// What ComfyUI says of the weights of a file, where their tensors alone would be read otherwise:
// scales in the order of tensor cores, turned weights. [ComfyUI comfy/ops.py, comfy/quant_ops.py]
#pragma once

#include <functional>
#include <map>
#include <string>

#include "io/safetensors.h"

namespace ng::io {

/// Modules whose weights are not read, with what is said of each.
using UnreadModules = std::map<std::string, std::string, std::less<>>;

/// The key of a file's metadata that says it of all its modules.
inline constexpr const char* kComfyMetadata = "_quantization_metadata";

/// Those that such metadata names with another format than FP8. Throws Error where it is no JSON of
/// that form.
[[nodiscard]] UnreadModules comfy_modules(const Safetensors& file);

/// Adds the module of P.comfy_quant, where that says another format.
void add_comfy_module(const SafetensorsEntry& mark, UnreadModules* modules);

}  // namespace ng::io
