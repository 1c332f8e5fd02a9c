#include "tokenizer/special_ids.h"

#include <algorithm>
#include <climits>

#include "base/json.h"

namespace ng {
namespace {

/// The tokens of one part of a template: what "special_tokens" says that it stands for.
std::vector<int32_t> ids_of_part(const JsonObject& processor, const JsonObject& part,
                                 const IdOfToken& id_of) {
  const std::string name = part.text("id");
  std::vector<int32_t> ids;
  const Json none = Json::object();
  const Json& specials = processor.has("special_tokens") ? processor.at("special_tokens") : none;
  if (specials.is_object() && specials.contains(name)) {
    const JsonObject special(specials.at(name), processor.place(),
                             "post_processor.special_tokens.");
    const Json& listed = special.at("ids", "a list of ids");
    if (!listed.is_array()) special.refuse("ids", brief(listed), "a list of ids");
    for (const Json& id : listed) {
      if (!id.is_number_integer() || id < 0 || id > INT32_MAX)
        special.refuse("ids", brief(listed), "a list of ids");
      ids.push_back(id.get<int32_t>());
    }
    return ids;
  }
  ids.push_back(id_of(name));
  if (ids.front() < 0) part.refuse("id", brief(Json(name)), "a token of the vocabulary");
  return ids;
}

/// What a TemplateProcessing puts around a single text.
void add_template(const JsonObject& processor, const IdOfToken& id_of, SpecialIds* ids) {
  const Json& parts = processor.at("single", "a list of parts");
  if (!parts.is_array()) processor.refuse("single", brief(parts), "a list of parts");
  std::vector<int32_t> before, after;
  bool is_behind = false;
  for (const Json& part : parts) {
    const JsonObject either(part, processor.place(), "post_processor.single.");
    if (either.has("Sequence")) {
      is_behind = true;
      continue;
    }
    for (const int32_t id : ids_of_part(processor, either.object("SpecialToken"), id_of))
      (is_behind ? after : before).push_back(id);
  }
  ids->before.insert(ids->before.begin(), before.begin(), before.end());
  ids->after.insert(ids->after.end(), after.begin(), after.end());
}

/// Of a post_processor that is null, alone, or a Sequence; the last of these stands outermost.
void add_post_processor(const JsonObject& tokenizer, const IdOfToken& id_of, SpecialIds* ids) {
  if (!tokenizer.has("post_processor")) return;
  const auto add = [&](const Json& step, const std::string& prefix) {
    const JsonObject processor(step, tokenizer.place(), prefix);
    if (processor.text("type") == "TemplateProcessing") add_template(processor, id_of, ids);
  };
  const JsonObject whole = tokenizer.object("post_processor");
  if (whole.text("type") != "Sequence") return add(whole.value(), "post_processor.");
  const Json& steps = whole.at("processors", "a list of processors");
  if (!steps.is_array()) whole.refuse("processors", brief(steps), "a list");
  for (const Json& step : steps) add(step, "post_processor.processors.");
}

/// add_bos_token or add_eos_token, where it is said: whether the token stands at this side.
void obey(const JsonObject& settings, const char* key, const std::optional<int32_t>& token,
          std::vector<int32_t>* side) {
  if (!settings.has(key)) return;
  const bool adds = settings.boolean_or(key, false);  // refuses what is none, whatever it is for
  if (!token) return;
  std::erase(*side, *token);
  if (adds) side->insert(side->begin(), *token);
}

std::optional<int32_t> token_of(const JsonObject& settings, const char* key,
                                const IdOfToken& id_of) {
  const std::string content = token_in_settings(settings, key);
  const int32_t id = content.empty() ? -1 : id_of(content);
  return id >= 0 ? std::optional(id) : std::nullopt;
}

/// Of a token that texts begin or end with, so that it must be one where it is named.
std::optional<int32_t> known_token_of(const JsonObject& settings, const char* key,
                                      const IdOfToken& id_of) {
  const std::optional<int32_t> id = token_of(settings, key, id_of);
  if (!id && !token_in_settings(settings, key).empty())
    settings.refuse(key, brief(settings.at(key)), "a token of the tokenizer.json beside it");
  return id;
}

/// By the added tokens, then by the model's vocabulary, in either of its forms.
int32_t id_in_file(const JsonObject& tokenizer, const std::string& content) {
  if (tokenizer.has("added_tokens"))
    for (const Json& token : tokenizer.at("added_tokens")) {
      const JsonObject added(token, tokenizer.place(), "added_tokens.");
      if (added.text("content") == content)
        return static_cast<int32_t>(added.integer("id", 0, INT32_MAX));
    }
  const JsonObject model = tokenizer.object("model");
  if (!model.has("vocab")) return -1;
  const Json& vocab = model.at("vocab");
  if (vocab.is_object())
    return vocab.contains(content)
               ? static_cast<int32_t>(model.object("vocab").integer(content, 0, INT32_MAX))
               : -1;
  int32_t id = 0;
  for (const Json& piece : vocab) {
    if (piece.is_array() && !piece.empty() && piece[0] == content) return id;
    ++id;
  }
  return -1;
}

}  // namespace

std::string token_in_settings(const JsonObject& settings, const std::string& key) {
  if (!settings.has(key)) return "";
  if (settings.at(key).is_object()) return settings.object(key).text("content");
  return settings.text(key);
}

SpecialIds special_ids(const JsonObject& tokenizer, const JsonObject& settings,
                       const IdOfToken& id_of) {
  SpecialIds ids;
  ids.bos = known_token_of(settings, "bos_token", id_of);
  ids.end = known_token_of(settings, "eos_token", id_of);
  const bool is_named = !token_in_settings(settings, "eos_token").empty();
  if (const int32_t usual = is_named ? -1 : id_of(std::string(kUsualEnd)); usual >= 0)
    ids.end = usual;
  ids.pad = token_of(settings, "pad_token", id_of);
  add_post_processor(tokenizer, id_of, &ids);
  obey(settings, "add_bos_token", ids.bos, &ids.before);
  obey(settings, "add_eos_token", is_named ? ids.end : std::nullopt, &ids.after);
  if (!ids.bos && ids.before.size() == 1) ids.bos = ids.before.front();
  return ids;
}

SpecialIds special_ids(const TokenizerFiles& files) {
  if (files.json.empty()) return {};
  const Json json = parse_json(files.json, files.json_place);
  const Json settings = tokenizer_settings(files);
  const JsonObject tokenizer(json, files.json_place);
  return special_ids(tokenizer, JsonObject(settings, files.config_place),
                     [&](const std::string& content) { return id_in_file(tokenizer, content); });
}

SpecialIds special_ids(const Tokenizer& tokenizer) {
  const std::span<const int32_t> before = tokenizer.text_begin();
  return {.bos = tokenizer.bos_token(),
          .end = tokenizer.end_token(),
          .pad = tokenizer.pad_token(),
          .before = {before.begin(), before.end()}};
}

}  // namespace ng
