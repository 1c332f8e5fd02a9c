#include "io/hf/shard.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "io/safetensors_dtype.h"

namespace ng::io {
namespace {

constexpr std::array<StoredDtype, 3> kWrittenDtypes = {
    {{"F32", "float32"}, {"BF16", "bfloat16"}, {"F16", "float16"}}};

uint64_t bytes_of_parts(const StoredParts& tensor) {
  uint64_t bytes = 0;
  for (const SafetensorsTensor& part : tensor)
    bytes += static_cast<uint64_t>(bytes_of(find_dtype(part.dtype, "", part.name), part.shape));
  return bytes;
}

/// Cuts tensors, in order, into shards of at most `max_bytes` each (or one tensor).
std::vector<std::span<const StoredParts>> cut_into_shards(std::span<const StoredParts> tensors,
                                                          uint64_t max_bytes) {
  std::vector<std::span<const StoredParts>> shards;
  uint64_t held = 0;
  size_t first = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint64_t bytes = bytes_of_parts(tensors[i]);
    if (shards.empty() || held + bytes > max_bytes) {
      shards.emplace_back();
      first = i;
      held = 0;
    }
    held += bytes;
    shards.back() = tensors.subspan(first, i + 1 - first);
  }
  return shards;
}

std::string shard_name(size_t index, size_t count) {
  if (count == 1) return std::string(kHfWeights);
  return fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, count);
}

}  // namespace

const StoredDtype& stored_dtype(const std::string& name) {
  const auto* found = std::find_if(kWrittenDtypes.begin(), kWrittenDtypes.end(),
                                   [&](const StoredDtype& dtype) { return dtype.name == name; });
  if (found != kWrittenDtypes.end()) return *found;
  throw Error({.place = "",
               .key = "dtype",
               .problem = fmt::format("\"{}\"", name),
               .remedy = "F32 BF16 F16"});
}

void write_shard(const std::string& path, std::span<const StoredParts> tensors,
                 const WriteParts& write) {
  std::vector<SafetensorsTensor> header;
  for (const StoredParts& tensor : tensors)
    header.insert(header.end(), tensor.begin(), tensor.end());
  SafetensorsWriter file(path, header, {{"format", "pt"}});
  for (size_t i = 0; i < tensors.size(); ++i) write(i, file);
  file.commit();
}

void write_shards(const std::string& folder, std::span<const StoredParts> tensors,
                  uint64_t max_bytes, const WriteParts& write) {
  const auto shards = cut_into_shards(tensors, max_bytes);
  OrderedJson::object_t file_of_tensor;  // no key is looked for: each is there once
  uint64_t bytes = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shard_name(i, shards.size());
    const auto first = static_cast<size_t>(shards[i].data() - tensors.data());
    write_shard(join_path(folder, name), shards[i],
                [&](size_t index, SafetensorsWriter& file) { write(first + index, file); });
    for (const StoredParts& tensor : shards[i]) {
      bytes += bytes_of_parts(tensor);
      for (const SafetensorsTensor& part : tensor) file_of_tensor.emplace_back(part.name, name);
    }
  }
  if (shards.size() == 1) return;
  const OrderedJson index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", file_of_tensor}};
  write_file_atomically(join_path(folder, kHfIndex), json_text(index, 2) + "\n");
}

std::vector<StoredParts> plain_parts(std::span<const HfTensor> tensors, std::string_view dtype) {
  std::vector<StoredParts> parts;
  for (const HfTensor& tensor : tensors)
    parts.push_back({{tensor.spec.hf_name, std::string(dtype), hf_shape(tensor.spec), nullptr}});
  return parts;
}

void write_rows(const HfTensor& tensor, const ParameterReader& read, PlainRows& rows,
                SafetensorsWriter& file) {
  const bool turned = tensor.spec.hf_transposed;
  const auto count = static_cast<size_t>(tensor.spec.rows);
  const auto cols = static_cast<size_t>(tensor.spec.cols);
  std::vector<float> row(cols), whole(turned ? count * cols : 0);
  for (size_t r = 0; r < count; ++r) {
    if (tensor.parameter >= 0)
      read(static_cast<size_t>(tensor.parameter), static_cast<int64_t>(r), row);
    if (!turned) file.write(rows.bytes(row));
    for (size_t c = 0; turned && c < cols; ++c) whole[c * count + r] = row[c];
  }
  for (size_t c = 0; turned && c < cols; ++c)
    file.write(rows.bytes(std::span(whole).subspan(c * count, count)));
}

WriteParts plain_writer(std::span<const HfTensor> tensors, const ParameterReader& read,
                        const StoredDtype& dtype) {
  return [=](size_t index, SafetensorsWriter& file) {
    const HfTensor& tensor = tensors[index];
    PlainRows rows(dtype.name, [&](float value) {
      throw Error({.place = "",
                   .key = tensor.spec.hf_name,
                   .problem = fmt::format("{} does not fit {}", value, dtype.torch),
                   .remedy = "write F32 or BF16"});
    });
    write_rows(tensor, read, rows, file);
  };
}

}  // namespace ng::io
