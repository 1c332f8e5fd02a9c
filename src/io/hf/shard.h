// The safetensors files of a folder, one or several, and parameters as Hugging Face stores them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/hf/folder.h"
#include "io/hf/names.h"
#include "io/plain_rows.h"
#include "io/safetensors.h"

namespace ng::io {

struct StoredDtype {
  std::string_view name;   ///< safetensors
  std::string_view torch;  ///< in config.json
};
/// By its name in safetensors; throws Error where weights are not written so.
[[nodiscard]] const StoredDtype& stored_dtype(const std::string& name);

/// What stands for a tensor of the model in a file, without data: itself, or codes and scales.
using StoredParts = std::vector<SafetensorsTensor>;
/// Writes the bytes of the parts of tensor `index` of the list.
using WriteParts = std::function<void(size_t index, SafetensorsWriter& file)>;

/// One file with all of them.
void write_shard(const std::string& path, std::span<const StoredParts> tensors,
                 const WriteParts& write);
/// model.safetensors, or "model-00001-of-00003.safetensors" ... of at most `max_bytes` each (or one
/// tensor) and model.safetensors.index.json: the file of each tensor, and the bytes of all.
void write_shards(const std::string& folder, std::span<const StoredParts> tensors,
                  uint64_t max_bytes, const WriteParts& write);

/// Tensors whose values stand one by one.
[[nodiscard]] std::vector<StoredParts> plain_parts(std::span<const HfTensor> tensors,
                                                   std::string_view dtype);
/// The rows of one as they are stored; zeros of what is no parameter.
void write_rows(const HfTensor& tensor, const ParameterReader& read, PlainRows& rows,
                SafetensorsWriter& file);
/// Those of all, for write_shard(). Throws Error where a finite value does not fit the dtype.
[[nodiscard]] WriteParts plain_writer(std::span<const HfTensor> tensors,
                                      const ParameterReader& read, const StoredDtype& dtype);

}  // namespace ng::io
