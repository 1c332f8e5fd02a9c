#include "io/hf/shard.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "format/codec.h"
#include "io/safetensors.h"

namespace ng::io {
namespace {

constexpr std::array<StoredDtype, 3> kWrittenDtypes = {
    {{"F32", "float32", 4}, {"BF16", "bfloat16", 2}, {"F16", "float16", 2}}};

/// The stored rows of a tensor, one after another.
class StoredRows {
 public:
  StoredRows(const HfTensor& tensor, const ParameterReader& read) : tensor_(tensor), read_(read) {
    const ParameterSpec& spec = tensor.spec;
    row_.resize(static_cast<size_t>(spec.hf_transposed ? spec.rows : spec.cols));
    if (!spec.hf_transposed || !is_parameter()) return;
    const auto cols = static_cast<size_t>(spec.cols);
    whole_.resize(row_.size() * cols);
    for (int64_t r = 0; r < spec.rows; ++r)
      read_(index(), r, std::span(whole_).subspan(static_cast<size_t>(r) * cols, cols));
  }

  [[nodiscard]] int64_t count() const {
    return tensor_.spec.hf_transposed ? tensor_.spec.cols : tensor_.spec.rows;
  }
  /// Valid until the next call; zeros of what is no parameter.
  [[nodiscard]] std::span<const float> row(int64_t r) {
    const auto cols = static_cast<size_t>(tensor_.spec.cols);
    if (is_parameter() && whole_.empty()) read_(index(), r, row_);
    for (size_t i = 0; !whole_.empty() && i < row_.size(); ++i)
      row_[i] = whole_[i * cols + static_cast<size_t>(r)];
    return row_;
  }

 private:
  [[nodiscard]] bool is_parameter() const { return tensor_.parameter >= 0; }
  [[nodiscard]] size_t index() const { return static_cast<size_t>(tensor_.parameter); }

  const HfTensor& tensor_;
  const ParameterReader& read_;
  std::vector<float> row_;
  std::vector<float> whole_;  // the parameter where it is stored transposed
};

/// Writes FP32 rows in the stored dtype.
class RowWriter {
 public:
  RowWriter(SafetensorsWriter* file, const StoredDtype& dtype) : file_(file) {
    if (dtype.name == "F32") return;
    format_ = &element_format(dtype.torch);
    grid_ = grid_of(*format_);
  }

  void write(std::span<const float> row, const std::string& tensor) {
    if (format_ == nullptr) return file_->write(std::as_bytes(row));
    codes_.resize(row.size());
    for (size_t i = 0; i < row.size(); ++i) {
      const uint32_t code = encode_float(grid_, row[i], {}, OverflowRule::special);
      if (std::isfinite(row[i]) && (code & ~grid_.sign_mask) > grid_.max_code) {
        throw Error({.place = "",
                     .key = tensor,
                     .problem = fmt::format("{} does not fit {}", row[i], format_->name),
                     .remedy = "write F32 or BF16"});
      }
      codes_[i] = static_cast<uint16_t>(code);
    }
    file_->write(std::as_bytes(std::span<const uint16_t>(codes_)));
  }

 private:
  SafetensorsWriter* file_;
  const ElementFormat* format_ = nullptr;
  FloatGrid grid_;
  std::vector<uint16_t> codes_;
};

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

std::vector<ShardRange> cut_into_shards(std::span<const uint64_t> bytes, uint64_t max_bytes) {
  std::vector<ShardRange> shards;
  uint64_t held = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (shards.empty() || held + bytes[i] > max_bytes) {
      shards.push_back({i, i});
      held = 0;
    }
    held += bytes[i];
    shards.back().end = i + 1;
  }
  return shards;
}

std::string shard_name(size_t index, size_t count) {
  if (count == 1) return std::string(kHfWeights);
  return fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, count);
}

void write_shard_index(const std::string& folder,
                       std::span<const std::pair<std::string, std::string>> file_of_tensor,
                       uint64_t total_bytes) {
  OrderedJson::object_t map;
  for (const auto& [tensor, file] : file_of_tensor)
    map.emplace_back(tensor, file);  // no key is looked for: each is there once
  const OrderedJson index = {{"metadata", {{"total_size", total_bytes}}}, {"weight_map", map}};
  write_file_atomically(join_path(folder, kHfIndex), json_text(index, 2) + "\n");
}

void write_shard(const std::string& path, std::span<const HfTensor> tensors,
                 const ParameterReader& read, const StoredDtype& dtype) {
  std::vector<SafetensorsTensor> header;
  for (const HfTensor& tensor : tensors) {
    header.push_back({.name = tensor.spec.hf_name,
                      .dtype = std::string(dtype.name),
                      .shape = hf_shape(tensor.spec)});
  }
  SafetensorsWriter file(path, header, {{"format", "pt"}});
  RowWriter rows(&file, dtype);
  for (const HfTensor& tensor : tensors) {
    StoredRows stored(tensor, read);
    for (int64_t i = 0; i < stored.count(); ++i) rows.write(stored.row(i), tensor.spec.hf_name);
  }
  file.commit();
}

}  // namespace ng::io
