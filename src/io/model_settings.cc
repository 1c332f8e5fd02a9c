#include "io/model_settings.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/files.h"
#include "io/gguf/gguf.h"
#include "io/hf/names.h"
#include "io/model_files.h"

namespace ng::io {
namespace {

/// What config.json and generation_config.json call a tokenizer's special token.
struct TokenKey {
  const char* key;
  std::optional<int32_t> SpecialIds::*token;
};
constexpr TokenKey kTokenKeys[] = {
    {kBosKey, &SpecialIds::bos}, {kEosKey, &SpecialIds::end}, {kPadKey, &SpecialIds::pad}};

constexpr std::string_view kGgufTokens = "tokenizer.ggml.tokens";

/// A file's object with its keys in their order; null where there is no file.
OrderedJson ordered_file(const std::string& path) {
  if (!is_file(path)) return nullptr;
  const std::string text = read_file(path, kMaxHfConfigBytes);
  const Json json = parse_json(text, path);
  (void)JsonObject(json, path);  // refuses what is none
  return OrderedJson::parse(text);
}

/// Of the key of a token, where the file has one of its tokens there.
std::optional<int64_t> gguf_id(const Gguf& file, const std::string& name) {
  const std::string key = "tokenizer.ggml." + name;
  if (file.find_key(key) == nullptr) return {};
  const int64_t tokens =
      file.find_key(kGgufTokens) == nullptr ? INT32_MAX : std::ssize(file.texts(kGgufTokens));
  const int64_t id = file.integer(key, INT32_MIN, UINT32_MAX);  // llama.cpp passes over others
  return id >= 0 && id < tokens ? std::optional(id) : std::nullopt;
}

/// The ends of a text, of a turn and of a message all end what is generated there.
/// [llama.cpp src/llama-vocab.cpp, special_eog_ids]
OrderedJson gguf_ends(const Gguf& file) {
  OrderedJson ids = OrderedJson::array();
  for (const char* name : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
    const auto id = gguf_id(file, name);
    if (id && std::find(ids.begin(), ids.end(), *id) == ids.end()) ids.push_back(*id);
  }
  if (ids.empty() && file.find_key(kGgufTokens) != nullptr) {
    const std::vector<std::string>& tokens = file.texts(kGgufTokens);
    const auto usual = std::find(tokens.begin(), tokens.end(), kUsualEnd);
    if (usual != tokens.end()) ids.push_back(usual - tokens.begin());
  }
  if (ids.empty()) return nullptr;
  return ids.size() == 1 ? OrderedJson(ids.front()) : ids;
}

OrderedJson gguf_config(const Gguf& file) {
  const auto id_or_null = [&](const char* name) -> OrderedJson {
    const auto id = gguf_id(file, name);
    return id ? OrderedJson(*id) : OrderedJson(nullptr);
  };
  return {{kBosKey, id_or_null("bos_token_id")},
          {kEosKey, gguf_ends(file)},
          {kPadKey, id_or_null("padding_token_id")}};
}

OrderedJson setting_of(const OrderedJson& object, const char* key) {
  return object.is_object() && object.contains(key) ? object.at(key) : OrderedJson(nullptr);
}

bool is_or_holds(const OrderedJson& value, int32_t id) {
  const auto is_id = [&](const OrderedJson& each) { return each == id; };
  return value.is_array() ? std::any_of(value.begin(), value.end(), is_id) : is_id(value);
}

}  // namespace

std::string generation_path(const ModelName& model) {
  std::string own = join_path(model.path, kGenerationConfig);
  return is_file(own) ? own : join_path(sizes_place(model), kGenerationConfig);
}

ModelSettings read_model_settings(const ModelName& model) {
  const std::string folder = sizes_place(model);
  if (is_gguf(folder)) return {.config = gguf_config(Gguf(folder)), .place = folder};
  ModelSettings settings{.place = folder};
  if (OrderedJson config = ordered_file(join_path(folder, kHfConfig)); config.is_object())
    settings.config = std::move(config);
  for (const char* key : kLeftBehind) settings.config.erase(key);
  settings.generation = ordered_file(generation_path(model));
  if (const std::string own = tokenizer_place(model); own != folder)  // what adapters learned by
    take_special_ids(special_ids(read_tokenizer_files(join_path(own, kTokenizerJson))), &settings);
  return settings;
}

void add_special_ids(const SpecialIds& ids, int64_t vocab, ModelSettings* settings) {
  const bool is_new = settings->generation.is_null();
  if (is_new) settings->generation = {{"_from_model_config", true}};
  for (const auto& [key, token] : kTokenKeys) {
    OrderedJson of_config = setting_of(settings->config, key);
    OrderedJson of_generation = setting_of(settings->generation, key);
    if (of_config.is_null()) of_config = of_generation;
    const std::optional<int32_t>& id = ids.*token;
    if (of_config.is_null() && id && *id < vocab) of_config = *id;
    if (of_generation.is_null()) of_generation = of_config;
    if (!of_config.is_null()) settings->config[key] = of_config;
    if (is_new || !of_generation.is_null()) settings->generation[key] = of_generation;
  }
}

void take_special_ids(const SpecialIds& ids, ModelSettings* settings) {
  for (const auto& [key, token] : kTokenKeys) {
    const std::optional<int32_t>& id = ids.*token;
    for (OrderedJson* file : {&settings->config, &settings->generation})
      if (id && file->is_object() && !is_or_holds(setting_of(*file, key), *id)) (*file)[key] = *id;
  }
}

ModelSettings whole_model_settings(const ModelName& model, int64_t vocab) {
  ModelSettings settings = read_model_settings(model);
  SpecialIds ids;
  const std::string place = tokenizer_place(model);
  if (!is_gguf(place)) ids = special_ids(read_tokenizer_files(join_path(place, kTokenizerJson)));
  add_special_ids(ids, vocab, &settings);
  return settings;
}

std::vector<int32_t> end_tokens(const ModelSettings& settings) {
  std::string_view name = kGenerationConfig;
  OrderedJson value = setting_of(settings.generation, kEosKey);
  if (value.is_null()) {
    name = kHfConfig;
    value = setting_of(settings.config, kEosKey);
  }
  std::vector<int32_t> ids;
  const auto add = [&](const OrderedJson& id) {
    if (!id.is_number_integer() || id < 0 || id > INT32_MAX)
      throw Error({.place = join_path(settings.place, name),
                   .key = kEosKey,
                   .problem = brief(Json(value)),
                   .remedy = "a token id, or a list of them"});
    if (std::find(ids.begin(), ids.end(), id.get<int32_t>()) == ids.end())
      ids.push_back(id.get<int32_t>());
  };
  if (value.is_array())
    for (const OrderedJson& id : value) add(id);
  else if (!value.is_null())
    add(value);
  return ids;
}

int64_t config_id(const ModelSettings& settings, const char* key) {
  const OrderedJson value = setting_of(settings.config, key);
  return value.is_number_integer() && value >= 0 && value <= INT32_MAX ? value.get<int64_t>() : -1;
}

}  // namespace ng::io
