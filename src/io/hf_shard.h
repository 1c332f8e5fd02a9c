// One safetensors file of parameters as Hugging Face stores them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "io/hf_folder.h"
#include "io/hf_names.h"

namespace ng::io {

struct StoredDtype {
  std::string_view name;   ///< safetensors
  std::string_view torch;  ///< in config.json
  uint64_t bytes;
};
/// By its name in safetensors; throws Error where weights are not written so.
[[nodiscard]] const StoredDtype& stored_dtype(const std::string& name);

/// Throws Error where a finite value does not fit the dtype.
void write_shard(const std::string& path, std::span<const HfTensor> tensors,
                 const ParameterReader& read, const StoredDtype& dtype);

}  // namespace ng::io
