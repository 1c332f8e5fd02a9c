// Parameters -> a model folder.
#include <algorithm>
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

/// Who saved what a folder holds; empty: this program. A config.json of ours has `dtype` and
/// `torch_dtype`, and indents what it copies of another's by one space; PEFT says its version.
std::string_view saved_by(const std::string& folder) {
  const auto text_of = [&](std::string_view file) {
    const std::string path = join_path(folder, file);
    const bool is_readable = is_file(path) && file_size(path) <= kMaxHfConfigBytes;
    return is_readable ? read_file(path, kMaxHfConfigBytes) : std::string();
  };
  const auto has = [](const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  };
  if (has(text_of(kPeftConfig), "\"peft_version\"")) return "PEFT";
  const std::string config = text_of(kHfConfig);
  if (config.empty()) return "";
  if (has(config, "\n  \"transformers_version\"")) return "transformers";
  return has(config, "\"dtype\"") && has(config, "\"torch_dtype\"") ? "" : "another program";
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
  writer.publish(Replace::always);
}

}  // namespace ng::io
