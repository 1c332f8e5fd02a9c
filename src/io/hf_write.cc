// Parameters -> a model folder.
#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "io/hf_folder.h"
#include "io/hf_names.h"
#include "io/hf_shard.h"
#include "io/peft_folder.h"

namespace ng::io {
namespace {

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
         name == kGenerationConfig || name == "tokenizer.json" || name == "tokenizer_config.json" ||
         name == kPeftConfig || name == kPeftWeights;
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
  const auto holds = [&](std::string_view name) { return is_file(join_path(folder, name)); };
  if (!holds(kHfConfig) && !holds(kPeftConfig)) refuse("holds other files and no model");
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
