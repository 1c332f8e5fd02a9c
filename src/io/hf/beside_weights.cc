#include "io/hf/beside_weights.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "io/gguf/tokenizer.h"
#include "io/hf/folder.h"
#include "io/hf/names.h"
#include "io/model_files.h"
#include "io/model_settings.h"

namespace ng::io {
namespace {

std::optional<std::string> add_gguf_tokenizer(const Gguf& file, const std::string& folder) {
  if (!has_tokenizer(file)) return {};
  std::unique_ptr<Tokenizer> tokenizer;
  try {
    tokenizer = open_gguf_tokenizer(file);
  } catch (const Error& error) {
    return fmt::format("the tokenizer is not written: {}", error.what());
  }
  tokenizer->save(folder);
  return note_of_pattern(file);
}

/// Byte for byte that of the folder, where nothing was added to it.
std::string generation_text(const ModelSettings& settings, const std::string& path) {
  if (is_file(path)) {
    std::string own = read_file(path, kMaxHfConfigBytes);
    if (OrderedJson::parse(own) == settings.generation) return own;
  }
  return json_text(settings.generation, 2) + "\n";
}

/// What adapters can make different of a base's config.json.
void take_sizes(OrderedJson& json, const ModelConfig& stored, const ModelConfig& config) {
  if (stored.vocab != config.vocab) json["vocab_size"] = config.vocab;
  if (stored.tie_embeddings != config.tie_embeddings)
    json["tie_word_embeddings"] = config.tie_embeddings;
}

}  // namespace

void write_configs(const std::string& folder, const ModelName& model, const ModelConfig& config,
                   std::string_view torch_dtype, const OrderedJson& quantization) {
  const ModelSettings settings = whole_model_settings(model, config.vocab);
  const std::string place = sizes_place(model);
  const std::string text = is_gguf(place)
                               ? hf_config_text(config, torch_dtype)
                               : read_file(join_path(place, kHfConfig), kMaxHfConfigBytes);
  OrderedJson json = OrderedJson::parse(text);
  take_sizes(json, parse_hf_config(Json::parse(text), place), config);
  for (const char* key : {kBosKey, kEosKey, kPadKey})
    if (settings.config.contains(key)) json[key] = settings.config.at(key);
  json["dtype"] = torch_dtype;
  json["torch_dtype"] = torch_dtype;  // for transformers 4
  for (const char* key : kLeftBehind) json.erase(key);
  if (!quantization.is_null()) json["quantization_config"] = quantization;
  write_file_atomically(join_path(folder, kHfConfig), json_text(json, 1) + "\n");
  write_file_atomically(join_path(folder, kGenerationConfig),
                        generation_text(settings, generation_path(model)));
}

std::optional<std::string> add_tokenizer_files(const std::string& folder, const ModelName& model) {
  const std::string place = tokenizer_place(model);
  if (is_gguf(place)) return add_gguf_tokenizer(Gguf(place), folder);
  write_tokenizer_files(folder, read_tokenizer_files(join_path(place, kTokenizerJson)));
  return {};
}

}  // namespace ng::io
