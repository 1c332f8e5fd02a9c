// The tensors of one safetensors file, with what lies around it that says how they are read.
#pragma once

#include "io/hf/coded_tensors.h"
#include "io/safetensors.h"

namespace ng::io {

/// The tensors of a file. Where they may be codes, with what configuration files in its folder say,
/// and scales of these tensors that lie in other files of the folder's index.
[[nodiscard]] StoredModel stored_model_of(const Safetensors& file);

/// A file whose codes, where scales lie beside them, are read as what they stand for, under the
/// names of the codes. Where these scales are missing or not understood, an Error is thrown when
/// the tensor is read as numbers.
[[nodiscard]] Safetensors open_decoded(const std::string& path);

}  // namespace ng::io
