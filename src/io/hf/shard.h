// One safetensors file of parameters as Hugging Face stores them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/hf/folder.h"
#include "io/hf/names.h"

namespace ng::io {

struct StoredDtype {
  std::string_view name;   ///< safetensors
  std::string_view torch;  ///< in config.json
  uint64_t bytes;
};
/// By its name in safetensors; throws Error where weights are not written so.
[[nodiscard]] const StoredDtype& stored_dtype(const std::string& name);

/// Tensors [begin, end) of a list.
struct ShardRange {
  size_t begin = 0, end = 0;
};
/// Cuts tensors of these sizes, in order, into shards of at most `max_bytes` each (or one tensor).
[[nodiscard]] std::vector<ShardRange> cut_into_shards(std::span<const uint64_t> bytes,
                                                      uint64_t max_bytes);

/// Of shard `index` of so many: "model-00001-of-00003.safetensors"; of one: "model.safetensors".
[[nodiscard]] std::string shard_name(size_t index, size_t count);

/// model.safetensors.index.json: the file of each tensor, and the bytes of all.
void write_shard_index(const std::string& folder,
                       std::span<const std::pair<std::string, std::string>> file_of_tensor,
                       uint64_t total_bytes);

/// Throws Error where a finite value does not fit the dtype.
void write_shard(const std::string& path, std::span<const HfTensor> tensors,
                 const ParameterReader& read, const StoredDtype& dtype);

}  // namespace ng::io
