#include "tokenizer/tokenizer_folder.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"

namespace ng {
namespace {

constexpr size_t kMaxTokenizerFile = 64 << 20;
constexpr const char *kTemplateKey = "chat_template", *kCodeKey = "auto_map";

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

std::string text_if_there(const std::string& path) {
  return is_file(path) ? read_file(path, kMaxTokenizerFile) : "";
}

/// In UTF-8, as JSON and GGUF are.
std::string jinja_of_file(const std::string& path) {
  std::string jinja = read_file(path, kMaxTokenizerFile);
  if (!is_utf8(jinja)) throw Error({path, "", "is no UTF-8", "a template in UTF-8"});
  return jinja;
}

/// chat_template.jinja, then the others; else the file that processors had.
/// [transformers 5.24 tokenization_utils_base.py, _from_pretrained; utils/hub.py]
NamedTemplates template_files(const std::string& folder) {
  NamedTemplates templates;
  if (const std::string path = folder + std::string(kChatTemplate); is_file(path))
    templates.push_back({std::string(kDefaultTemplate), jinja_of_file(path)});
  for (const std::string_view more : {kMoreChatTemplates, std::string_view("chat_templates")}) {
    const std::string inner = folder + std::string(more);
    if (!is_folder(inner)) continue;
    for (const std::string& file : list_folder(inner)) {
      if (!file.ends_with(kJinjaEnding) || file.front() == '.') continue;
      const std::string name = file.substr(0, file.size() - kJinjaEnding.size());
      const std::string path = join_path(inner, file);
      require_template_name(name, path, "");
      const auto is_known = [&](const NamedTemplate& known) { return known.name == name; };
      if (std::none_of(templates.begin(), templates.end(), is_known))
        templates.push_back({name, jinja_of_file(path)});
    }
  }
  return templates;
}

/// What some models have beside a tokenizer_config.json without a template.
NamedTemplates legacy_template(const std::string& path) {
  if (!is_file(path)) return {};
  const Json json = read_json_file(path, kMaxTokenizerFile);
  return chat_templates_in(JsonObject(json, path));
}

Json parsed_object(const std::string& text, const std::string& place) {
  if (text.empty()) return Json::object();
  Json json = parse_json(text, place);
  (void)JsonObject(json, place);  // refuses what is none
  return json;
}

/// The file's object in its own order, or an empty one.
OrderedJson ordered_config(const std::string& path) {
  const std::string text = text_if_there(path);
  (void)parsed_object(text, path);
  return text.empty() ? OrderedJson::object() : OrderedJson::parse(text);
}

/// Whether a configuration has these templates, in any order.
bool has_templates(const OrderedJson& config, const std::string& path,
                   const NamedTemplates& templates) {
  Json own = Json::object();
  if (config.contains(kTemplateKey)) own[kTemplateKey] = config.at(kTemplateKey);
  const NamedTemplates there = chat_templates_in(JsonObject(own, path));
  return std::is_permutation(there.begin(), there.end(), templates.begin(), templates.end());
}

/// tokenizer_config.json without the names of code that lies beside it, which does not go along.
std::string without_code(const TokenizerFiles& files) {
  if (!parsed_object(files.config, files.config_place).contains(kCodeKey)) return files.config;
  OrderedJson config = OrderedJson::parse(files.config);
  config.erase(kCodeKey);
  return json_text(config, 1) + "\n";
}

NamedTemplates templates_of(const TokenizerFiles& files) {
  const Json settings = tokenizer_settings(files);
  return chat_templates_in(JsonObject(settings, files.config_place));
}

}  // namespace

void require_template_name(const std::string& name, const std::string& place,
                           const std::string& key) {
  constexpr size_t kMostBytes = 128;
  const bool is_plain = std::none_of(name.begin(), name.end(), [](char c) {
    return c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20;
  });
  if (is_plain && !name.empty() && name.front() != '.' && name.size() <= kMostBytes) return;
  throw Error({.place = place,
               .key = key,
               .problem = brief(Json(name)) + " is no name of a template",
               .remedy = "a name without '/' or '.' in front, as \"default\" or \"tool_use\""});
}

TokenizerFiles read_tokenizer_files(const std::string& path) {
  const std::string folder = folder_of(path);
  TokenizerFiles files{.json = text_if_there(path),
                       .json_place = path,
                       .config = {},
                       .config_place = folder + std::string(kTokenizerConfig),
                       .tokens_place = folder + std::string(kSpecialTokensMap)};
  files.config = text_if_there(files.config_place);
  files.tokens = text_if_there(files.tokens_place);
  files.templates = template_files(folder);
  const Json config = parsed_object(files.config, files.config_place);
  if (files.templates.empty() && !JsonObject(config, files.config_place).has(kTemplateKey))
    files.templates = legacy_template(folder + "chat_template.json");
  return files;
}

Json tokenizer_settings(const TokenizerFiles& files) {
  Json settings = parsed_object(files.config, files.config_place);
  const Json tokens = parsed_object(files.tokens, files.tokens_place);
  for (const auto& [key, value] : tokens.items()) {
    const bool is_said = settings.contains(key) && !settings.at(key).is_null();
    if (key.ends_with("_token") && !is_said) settings[key] = value;
  }
  if (!files.templates.empty()) settings[kTemplateKey] = chat_templates_json(files.templates);
  return settings;
}

NamedTemplates chat_templates_in(const JsonObject& config) {
  NamedTemplates templates;
  if (!config.has(kTemplateKey)) return templates;
  const Json& value = config.at(kTemplateKey);
  if (!value.is_array()) return {{std::string(kDefaultTemplate), config.text(kTemplateKey)}};
  for (const Json& entry : value) {
    const JsonObject named(entry, config.place(), std::string(kTemplateKey) + ".");
    templates.push_back({named.text("name"), named.text("template")});
    require_template_name(templates.back().name, config.place(), "chat_template.name");
  }
  return templates;
}

std::string default_template(const NamedTemplates& templates) {
  for (const NamedTemplate& each : templates)
    if (each.name == kDefaultTemplate) return each.jinja;
  return "";
}

OrderedJson chat_templates_json(const NamedTemplates& templates) {
  if (templates.size() == 1 && templates.front().name == kDefaultTemplate)
    return templates.front().jinja;
  OrderedJson list = OrderedJson::array();
  for (const auto& [name, jinja] : templates) list.push_back({{"name", name}, {"template", jinja}});
  return list;
}

void write_tokenizer_files(const std::string& folder, const TokenizerFiles& files) {
  const auto write = [&](std::string_view name, const std::string& text) {
    if (!text.empty()) write_file_atomically(join_path(folder, name), text);
  };
  write(kTokenizerJson, files.json);
  write(kTokenizerConfig, without_code(files));
  write(kSpecialTokensMap, files.tokens);
  const NamedTemplates templates = templates_of(files);
  if (!templates.empty()) replace_chat_templates(folder, templates);
}

void replace_default_template(const std::string& folder, const std::string& jinja) {
  NamedTemplates templates = templates_of(read_tokenizer_files(join_path(folder, kTokenizerJson)));
  std::erase_if(templates, [](const NamedTemplate& each) { return each.name == kDefaultTemplate; });
  templates.insert(templates.begin(), {std::string(kDefaultTemplate), jinja});
  replace_chat_templates(folder, templates);
}

void replace_chat_templates(const std::string& folder, const NamedTemplates& templates) {
  const std::string path = join_path(folder, kTokenizerConfig);
  OrderedJson config = ordered_config(path);
  if (!has_templates(config, path, templates)) {
    config[kTemplateKey] = chat_templates_json(templates);
    write_file_atomically(path, json_text(config, 1) + "\n");
  }
  const std::string more = join_path(folder, kMoreChatTemplates);
  if (is_folder(more)) remove_all(more);
  if (is_file(join_path(folder, kChatTemplate))) remove_all(join_path(folder, kChatTemplate));
  for (const auto& [name, jinja] : templates) {
    const bool is_default = name == kDefaultTemplate;
    if (!is_default) make_folders(more);
    write_file_atomically(is_default ? join_path(folder, kChatTemplate)
                                     : join_path(more, name + std::string(kJinjaEnding)),
                          jinja);
  }
}

}  // namespace ng
