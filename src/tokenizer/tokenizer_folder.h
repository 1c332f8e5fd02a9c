// The files of a tokenizer as a folder has them: tokenizer.json, what its configuration says, and
// chat templates wherever transformers 4 and 5 put them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"

namespace ng {

/// A chat template, Jinja text, and what it is called; "default" is the one that chats take.
struct NamedTemplate {
  std::string name, jinja;

  friend bool operator==(const NamedTemplate&, const NamedTemplate&) = default;
};
using NamedTemplates = std::vector<NamedTemplate>;
inline constexpr std::string_view kDefaultTemplate = "default";

inline constexpr std::string_view kTokenizerJson = "tokenizer.json";
inline constexpr std::string_view kTokenizerConfig = "tokenizer_config.json";
inline constexpr std::string_view kSpecialTokensMap = "special_tokens_map.json";
inline constexpr std::string_view kChatTemplate = "chat_template.jinja";
/// A folder of "NAME.jinja", as transformers calls it.
inline constexpr std::string_view kMoreChatTemplates = "additional_chat_templates";
inline constexpr std::string_view kJinjaEnding = ".jinja";

/// The files as they are written, and their places for messages. All may be empty but the first.
struct TokenizerFiles {
  std::string json, json_place;
  std::string config, config_place;            ///< tokenizer_config.json
  std::string tokens = {}, tokens_place = {};  ///< special_tokens_map.json
  NamedTemplates templates = {};               ///< in files of their own: `config` has none then
};

/// `path`, a tokenizer.json, and what stands beside it; what is not there is empty, `path` too.
[[nodiscard]] TokenizerFiles read_tokenizer_files(const std::string& path);

/// tokenizer_config.json as transformers takes it: with the tokens of special_tokens_map.json and,
/// as "chat_template", the templates that have files of their own. An object.
[[nodiscard]] Json tokenizer_settings(const TokenizerFiles& files);

/// The chat templates of a tokenizer_config.json: a text, or a list of {"name", "template"}. Throws
/// Error for another value, and for a name that no file could have.
[[nodiscard]] NamedTemplates chat_templates_in(const JsonObject& config);

/// The text of "default"; empty: there is none.
[[nodiscard]] std::string default_template(const NamedTemplates& templates);

/// As tokenizer_config.json has them: a text where there is the default alone, else a list.
[[nodiscard]] OrderedJson chat_templates_json(const NamedTemplates& templates);

/// Throws Error at `place` where a template cannot be called so.
void require_template_name(const std::string& name, const std::string& place,
                           const std::string& key);

/// Writes the files into a folder, chat templates to where each reader looks, as below.
void write_tokenizer_files(const std::string& folder, const TokenizerFiles& files);

/// Writes chat templates beside a tokenizer.json in place of those that are there: into
/// chat_template.jinja and additional_chat_templates/, which transformers 5 reads, and into
/// tokenizer_config.json, which older ones, vLLM and llama.cpp's converter do.
void replace_chat_templates(const std::string& folder, const NamedTemplates& templates);

/// The same of the default alone: templates of other names stay.
void replace_default_template(const std::string& folder, const std::string& jinja);

}  // namespace ng
