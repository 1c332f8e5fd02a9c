// Parameters -> a model folder.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "format/codec.h"
#include "io/hf_folder.h"
#include "io/hf_names.h"
#include "io/safetensors.h"

namespace ng::io {
namespace {

struct StoredDtype {
  std::string_view name;   ///< safetensors
  std::string_view torch;  ///< in config.json
  uint64_t bytes;
};
constexpr std::array<StoredDtype, 3> kDtypes = {
    {{"F32", "float32", 4}, {"BF16", "bfloat16", 2}, {"F16", "float16", 2}}};

const StoredDtype& stored_dtype(const std::string& name) {
  const auto* found = std::find_if(kDtypes.begin(), kDtypes.end(),
                                   [&](const StoredDtype& dtype) { return dtype.name == name; });
  if (found != kDtypes.end()) return *found;
  throw Error({.place = "",
               .key = "dtype",
               .problem = fmt::format("\"{}\"", name),
               .remedy = "F32 BF16 F16"});
}

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

/// Cuts the tensors, in order, into shards of at most `max_bytes` each (or one tensor).
std::vector<std::span<const HfTensor>> cut_into_shards(std::span<const HfTensor> tensors,
                                                       uint64_t value_bytes, uint64_t max_bytes) {
  std::vector<std::span<const HfTensor>> shards;
  size_t first = 0;
  uint64_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const ParameterSpec& spec = tensors[i].spec;
    const uint64_t more = value_bytes * static_cast<uint64_t>(spec.rows * spec.cols);
    if (i > first && bytes + more > max_bytes) {
      shards.push_back(tensors.subspan(first, i - first));
      first = i;
      bytes = 0;
    }
    bytes += more;
  }
  shards.push_back(tensors.subspan(first));
  return shards;
}

void write_weights(const std::string& folder, const ModelConfig& config,
                   const ParameterReader& read, const HfWriteOptions& options) {
  const StoredDtype& dtype = stored_dtype(options.dtype);
  const std::vector<HfTensor> tensors = hf_tensors(config);
  const auto shards = cut_into_shards(tensors, dtype.bytes, options.max_shard_bytes);
  if (shards.size() == 1) {
    return write_shard(join_path(folder, kHfWeights), tensors, read, dtype);
  }
  uint64_t total = 0;
  OrderedJson::object_t map;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    write_shard(join_path(folder, name), shards[i], read, dtype);
    for (const HfTensor& tensor : shards[i]) {
      map.emplace_back(tensor.spec.hf_name, name);  // no key is looked for: each is there once
      total += dtype.bytes * static_cast<uint64_t>(tensor.spec.rows * tensor.spec.cols);
    }
  }
  const OrderedJson index = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
  write_file_atomically(join_path(folder, kHfIndex), json_text(index, 2) + "\n");
}

/// "model-00001-of-00003.safetensors"
bool is_shard_name(std::string_view name) {
  constexpr std::string_view kPattern = "model-00000-of-00000.safetensors";
  return std::equal(name.begin(), name.end(), kPattern.begin(), kPattern.end(),
                    [](char c, char p) { return p == '0' ? c >= '0' && c <= '9' : c == p; });
}

bool is_own_name(std::string_view name) {
  return name == kHfConfig || name == kHfWeights || name == kHfIndex || is_shard_name(name) ||
         name == kGenerationConfig || name == "tokenizer.json" || name == "tokenizer_config.json";
}

}  // namespace

void require_replaceable(const std::string& folder) {
  const auto refuse = [&](const std::string& problem) {
    throw Error({.place = folder,
                 .key = "",
                 .problem = problem,
                 .remedy = "a new or empty folder, or that moved out of the way"});
  };
  if (is_file(folder)) refuse("is a file, not a folder for the model");
  if (!is_folder(folder)) return;
  const std::vector<std::string> names = list_folder(folder);
  if (names.empty()) return;
  if (!is_file(join_path(folder, kHfConfig))) refuse("holds other files and no model");
  for (const std::string& name : names)
    if (!is_own_name(name)) refuse(fmt::format("holds \"{}\", which is no part of a model", name));
}

void write_hf_folder(const std::string& folder, const ModelConfig& config,
                     const ParameterReader& read, const HfWriteOptions& options) {
  require_replaceable(folder);
  const std::string_view torch_dtype = stored_dtype(options.dtype).torch;
  FolderWriter writer(folder);
  write_weights(writer.path(), config, read, options);
  write_file_atomically(join_path(writer.path(), kHfConfig), hf_config_text(config, torch_dtype));
  const OrderedJson generation = {{"_from_model_config", true},
                                  {"bos_token_id", nullptr},
                                  {"eos_token_id", nullptr},
                                  {"pad_token_id", nullptr}};
  write_file_atomically(join_path(writer.path(), kGenerationConfig),
                        json_text(generation, 2) + "\n");
  if (options.tokenizer != nullptr) options.tokenizer->save(writer.path());
  writer.publish(Replace::always);
}

}  // namespace ng::io
