#include "io/gguf/special_keys.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "tokenizer/tokenizer_folder.h"

namespace ng {
namespace io {
namespace {

using MaybeId = std::optional<int32_t>;

void add_ggml_id(const char* name, const MaybeId& id, GgufKeys* keys) {
  if (id)
    keys->emplace_back(std::string("tokenizer.ggml.") + name,
                       GgufValue::of_u32(static_cast<uint32_t>(*id)));
}

MaybeId first_of(const MaybeId& a, const MaybeId& b) { return a ? a : b; }

MaybeId id_in_config(const ModelSettings& settings, const char* key, int64_t vocab) {
  const int64_t id = config_id(settings, key);
  return id >= 0 && id < vocab ? MaybeId(static_cast<int32_t>(id)) : std::nullopt;
}

/// Ends of texts beside `eos`, ids below `vocab`.
std::vector<int32_t> other_ends(const ModelSettings& settings, const MaybeId& eos, int64_t vocab) {
  std::vector<int32_t> ends = end_tokens(settings);
  std::erase_if(ends, [&](int32_t id) { return id == eos || id >= vocab; });
  return ends;
}

MaybeId first_end(const ModelSettings& settings, int64_t vocab) {
  const std::vector<int32_t> ends = other_ends(settings, {}, vocab);
  return ends.empty() ? std::nullopt : MaybeId(ends.front());
}

class SpecialKeyWriter {
 public:
  SpecialKeyWriter(const SpecialKeys& of, GgufKeys* keys, std::vector<std::string>* notes)
      : of_(of),
        vocab_(std::ssize(of.tokens)),
        said_(special_ids(of.tokenizer, of.config,
                          [&](const std::string& content) { return id_of_text(content); })),
        keys_(*keys),
        notes_(*notes) {}

  void add() {
    const MaybeId bos = chosen("bos_token", first_of(said_.bos, setting(kBosKey)));
    MaybeId eos = chosen("eos_token", first_end(of_.settings, vocab_));
    if (!eos && said_.after.size() == 1) eos = said_.after.front();
    add_ggml_id("bos_token_id", bos, &keys_);
    add_ggml_id("eos_token_id", eos, &keys_);
    add_ggml_id("padding_token_id", chosen("pad_token", setting(kPadKey)), &keys_);
    add_ends(other_ends(of_.settings, eos, vocab_));
    add_side("add_bos_token", said_.before, bos);
    add_side("add_eos_token", said_.after, eos);
  }

 private:
  [[nodiscard]] int32_t id_of_text(const std::string& content) const {
    const auto found = std::find(of_.tokens.begin(), of_.tokens.end(), content);
    return found == of_.tokens.end() ? -1 : static_cast<int32_t>(found - of_.tokens.begin());
  }
  [[nodiscard]] MaybeId setting(const char* key) const {
    return id_in_config(of_.settings, key, vocab_);
  }

  /// The token that the tokenizer names, else `other`, else what the tokenizer always has.
  [[nodiscard]] MaybeId chosen(const char* key, const MaybeId& other) const {
    const std::string content = token_in_settings(of_.config, key);
    if (content.empty()) return first_of(other, of_.otherwise);
    const int32_t id = id_of_text(content);
    if (id < 0) of_.config.refuse(key, brief(Json(content)), "a token of tokenizer.json");
    return id;
  }

  /// GGUF has two more keys for what ends a text, of which one is for messages to tools.
  void add_ends(std::vector<int32_t> ends) {
    MaybeId turn, message;
    for (const int32_t id : ends)
      if (of_.tokens[static_cast<size_t>(id)] == "<|eom_id|>") message = id;
    std::vector<std::string> lost;
    for (const int32_t id : ends) {
      if (id == message) continue;
      if (!turn)
        turn = id;
      else if (!message)
        message = id;
      else
        lost.push_back(brief(Json(of_.tokens[static_cast<size_t>(id)])));
    }
    add_ggml_id("eot_token_id", turn, &keys_);
    add_ggml_id("eom_token_id", message, &keys_);
    if (!lost.empty())
      notes_.push_back(fmt::format("GGUF has keys for three tokens that end a text, not for {}",
                                   fmt::join(lost, ", ")));
  }

  void add_side(const char* flag, const std::vector<int32_t>& ids, const MaybeId& token) {
    const bool adds = token && ids == std::vector<int32_t>{*token};
    keys_.emplace_back(std::string("tokenizer.ggml.") + flag, GgufValue::of_boolean(adds));
    if (adds || ids.empty()) return;
    notes_.push_back(fmt::format("{} is false: GGUF cannot say that texts have {} there", flag,
                                 fmt::join(texts_of(ids), " ")));
  }

  [[nodiscard]] std::vector<std::string> texts_of(const std::vector<int32_t>& ids) const {
    std::vector<std::string> texts;
    for (const int32_t id : ids)
      texts.push_back(id < vocab_ ? brief(Json(of_.tokens[static_cast<size_t>(id)]))
                                  : fmt::format("{}", id));
    return texts;
  }

  const SpecialKeys& of_;
  int64_t vocab_;
  SpecialIds said_;
  GgufKeys& keys_;
  std::vector<std::string>& notes_;
};

}  // namespace

void add_special_keys(const SpecialKeys& of, GgufKeys* keys, std::vector<std::string>* notes) {
  SpecialKeyWriter(of, keys, notes).add();
}

void add_setting_keys(const ModelSettings& settings, int64_t vocab, GgufKeys* keys) {
  const MaybeId eos = first_end(settings, vocab);
  add_ggml_id("bos_token_id", id_in_config(settings, kBosKey, vocab), keys);
  add_ggml_id("eos_token_id", eos, keys);
  add_ggml_id("padding_token_id", id_in_config(settings, kPadKey, vocab), keys);
  const std::vector<int32_t> ends = other_ends(settings, eos, vocab);
  const char* const kMore[] = {"eot_token_id", "eom_token_id"};
  for (size_t i = 0; i < std::min(ends.size(), std::size(kMore)); ++i)
    add_ggml_id(kMore[i], ends[i], keys);
}

}  // namespace io

void add_chat_templates(const JsonObject& config, io::GgufKeys* keys,
                        std::vector<std::string>* notes) {
  std::vector<std::string> names;
  for (const auto& [name, jinja] : chat_templates_in(config)) {
    if (name == kDefaultTemplate) {
      keys->emplace_back(std::string(kGgufChatTemplate), io::GgufValue::of_text(jinja));
      continue;
    }
    std::string plain = name;
    std::replace_if(
        plain.begin(), plain.end(),
        [](char c) {
          return !(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z');
        },
        '_');
    if (std::find(names.begin(), names.end(), plain) != names.end()) {
      notes->push_back(fmt::format("the chat template {} is left out: GGUF has one named {}",
                                   brief(Json(name)), plain));
      continue;
    }
    keys->emplace_back(std::string(kGgufChatTemplate) + "." + plain, io::GgufValue::of_text(jinja));
    names.push_back(std::move(plain));
  }
  if (!names.empty())
    keys->emplace_back("tokenizer.chat_templates", io::GgufValue::of_texts(std::move(names)));
}

}  // namespace ng
