// Parameters -> a model folder.
#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "io/hf/folder.h"
#include "io/hf/names.h"
#include "io/hf/peft_folder.h"
#include "io/hf/shard.h"
#include "io/model_settings.h"

namespace ng::io {
namespace {

/// "model-00001-of-00003.safetensors"
bool is_shard_name(std::string_view name) {
  constexpr std::string_view kPattern = "model-00000-of-00000.safetensors";
  return std::equal(name.begin(), name.end(), kPattern.begin(), kPattern.end(),
                    [](char c, char p) { return p == '0' ? c >= '0' && c <= '9' : c == p; });
}

bool is_own_name(std::string_view name) {
  constexpr std::string_view kNames[] = {
      kHfConfig,        kHfWeights,        kHfIndex,      kGenerationConfig, kTokenizerJson,
      kTokenizerConfig, kSpecialTokensMap, kChatTemplate, kPeftConfig,       kPeftWeights};
  return is_shard_name(name) ||
         std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

/// A folder of chat templates and nothing else.
bool is_template_folder(const std::string& path, std::string_view name) {
  if (name != kMoreChatTemplates || !is_folder(path)) return false;
  const std::vector<std::string> files = list_folder(path);
  return std::all_of(files.begin(), files.end(),
                     [](const std::string& file) { return file.ends_with(kJinjaEnding); });
}

[[noreturn]] void refuse_to_replace(const std::string& folder, const std::string& problem) {
  throw Error({.place = folder,
               .key = "",
               .problem = problem,
               .remedy = "a new or empty folder, or that moved out of the way"});
}

/// Whether a JSON object's first keys are these, in this order.
bool begins_with_keys(const OrderedJson& json, std::initializer_list<std::string_view> keys) {
  auto at = json.begin();
  return std::all_of(keys.begin(), keys.end(),
                     [&](std::string_view key) { return at != json.end() && (at++).key() == key; });
}

/// As hf_config_text() writes it, or as write_configs() does what it copies of another's. Others
/// sort keys or have one `dtype`.
bool is_own_config(const OrderedJson& json, const std::string& text, bool has_generation) {
  const auto dtype = json.find("dtype"), torch_dtype = json.find("torch_dtype");
  if (dtype == json.end() || torch_dtype == json.end() || *dtype != *torch_dtype) return false;
  if (text == json_text(json, 2) + "\n")
    return begins_with_keys(json, {"architectures", "model_type", "vocab_size"}) &&
           std::next(dtype) == torch_dtype;
  return has_generation && text == json_text(json, 1) + "\n";
}

/// As peft_config_text() writes it: PEFT sorts keys.
bool is_own_adapter(const OrderedJson& json, const std::string& text) {
  return text == json_text(json, 2) + "\n" &&
         begins_with_keys(json, {"peft_type", "task_type", "base_model_name_or_path", "r"});
}

/// Who saved what a folder holds; empty: this program, which its configurations show.
std::string_view saved_by(const std::string& folder) {
  const auto path_of = [&](std::string_view file) { return join_path(folder, file); };
  for (const std::string_view file : {kPeftConfig, kHfConfig}) {
    const std::string path = path_of(file);
    if (!is_file(path)) continue;
    if (file_size(path) > kMaxHfConfigBytes) return "another program";
    const std::string text = read_file(path, kMaxHfConfigBytes);
    const OrderedJson json = OrderedJson::parse(text, nullptr, false);
    if (!json.is_object()) return "another program";
    const bool is_own = file == kPeftConfig
                            ? is_own_adapter(json, text)
                            : is_own_config(json, text, is_file(path_of(kGenerationConfig)));
    if (is_own) continue;
    if (json.contains("peft_version")) return "PEFT";
    return json.contains("transformers_version") ? "transformers" : "another program";
  }
  return "";
}

}  // namespace

void publish_model(FolderWriter& writer, const std::string& folder) {
  const std::string before = join_path(folder, kMoreChatTemplates);
  const std::string now = join_path(writer.path(), kMoreChatTemplates);
  if (is_folder(before))
    for (const std::string& name : list_folder(before))
      if (!is_file(join_path(now, name)))
        refuse_to_replace(folder, fmt::format("holds \"{}/{}\", which did not come with the model",
                                              kMoreChatTemplates, name));
  writer.publish(Replace::always);
}

void require_replaceable(const std::string& folder) {
  const auto refuse = [&](const std::string& problem) { refuse_to_replace(folder, problem); };
  if (is_file(folder)) refuse("is a file, not a folder for the model");
  if (!is_folder(folder)) return;
  const std::vector<std::string> names = list_folder(folder);
  if (names.empty()) return;
  const auto holds = [&](std::string_view name) { return is_file(join_path(folder, name)); };
  if (!holds(kHfConfig) && !holds(kPeftConfig)) refuse("holds other files and no model");
  for (const std::string& name : names)
    if (!is_own_name(name) && !is_template_folder(join_path(folder, name), name))
      refuse(fmt::format("holds \"{}\", which is no part of a model", name));
  if (const std::string_view other = saved_by(folder); !other.empty())
    refuse(fmt::format("holds what {} saved", other));
}

void save_tokenizer(const std::string& folder, const HfWriteOptions& options) {
  if (options.tokenizer == nullptr) return;
  options.tokenizer->save(folder);
  if (options.chat_template.empty()) return;
  replace_default_template(folder, std::string(options.chat_template));
}

void write_hf_folder(const std::string& folder, const ModelConfig& config,
                     const ParameterReader& read, const HfWriteOptions& options) {
  require_replaceable(folder);
  const StoredDtype& dtype = stored_dtype(options.dtype);
  const std::vector<HfTensor> tensors = hf_tensors(config);
  ModelSettings settings = options.settings != nullptr ? *options.settings : ModelSettings();
  const bool has_tokenizer = options.tokenizer != nullptr;
  add_special_ids(has_tokenizer ? special_ids(*options.tokenizer) : SpecialIds(), config.vocab,
                  &settings);
  FolderWriter writer(folder);
  write_shards(writer.path(), plain_parts(tensors, dtype.name), options.max_shard_bytes,
               plain_writer(tensors, read, dtype));
  write_file_atomically(join_path(writer.path(), kHfConfig),
                        hf_config_text(config, dtype.torch, &settings));
  write_file_atomically(join_path(writer.path(), kGenerationConfig),
                        json_text(settings.generation, 2) + "\n");
  save_tokenizer(writer.path(), options);
  publish_model(writer, folder);
}

}  // namespace ng::io
