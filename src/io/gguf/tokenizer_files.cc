#include "io/gguf/tokenizer_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "base/json.h"
#include "base/utf8.h"
#include "io/gguf/byte_level.h"
#include "io/gguf/special_keys.h"
#include "io/gguf/token_types.h"
#include "tokenizer/tokenizer_parts.h"

namespace ng {
namespace {

/// Two tokens that become one.
struct Merge {
  float score;
  int32_t left, right;  ///< ids
};

class TokenizerOfKeys {
 public:
  explicit TokenizerOfKeys(const io::Gguf& file)
      : file_(file),
        tokens_(file.texts("tokenizer.ggml.tokens")),
        types_(file.integers("tokenizer.ggml.token_type")),
        kind_(file.text("tokenizer.ggml.model")) {
    if (tokens_.empty()) file.refuse("tokenizer.ggml.tokens", "is empty", "a list of tokens");
    if (types_.empty()) types_.assign(tokens_.size(), kNormalToken);
    if (types_.size() != tokens_.size())
      file.refuse("tokenizer.ggml.token_type", fmt::format("{} of them", types_.size()),
                  fmt::format("{}, as there are tokens", tokens_.size()));
  }

  TokenizerFiles make() {
    json_ = {{"version", "1.0"},        {"truncation", nullptr}, {"padding", nullptr},
             {"added_tokens", added()}, {"normalizer", nullptr}, {"pre_tokenizer", nullptr}};
    const bool is_of_characters = kind_ == "llama" || kind_ == "t5";
    if (kind_ != "gpt2" && !is_of_characters)
      file_.refuse("tokenizer.ggml.model", fmt::format("\"{}\" is not supported", kind_),
                   "gpt2, llama or t5");
    adds_bos_ = kind_ == "llama";
    if (is_of_characters)
      sentencepiece();
    else
      byte_level();
    return {.json = json_text(json_, 1) + "\n",
            .json_place = file_.path(),
            .config = json_text(config(), 1) + "\n",
            .config_place = file_.path()};
  }

 private:
  using Ids = std::unordered_map<std::string_view, int32_t>;

  [[nodiscard]] bool is(size_t id, GgufTokenType type) const { return types_[id] == type; }

  [[nodiscard]] OrderedJson added() const {
    OrderedJson added = OrderedJson::array();
    for (size_t id = 0; id < tokens_.size(); ++id) {
      const bool is_special = is(id, kControlToken) || is(id, kUnknownToken);
      if (!is_special && !is(id, kUserDefinedToken)) continue;
      added.push_back({{"id", id},
                       {"content", tokens_[id]},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", is_special}});
    }
    return added;
  }

  [[nodiscard]] bool is_added(size_t id) const {
    return is(id, kControlToken) || is(id, kUserDefinedToken);
  }

  /// Whether the added tokens have the ids that follow the others, without a gap: tokenizers counts
  /// on from the size of the vocabulary, whatever id stands beside a token that is not in it.
  [[nodiscard]] bool added_follow() const {
    size_t others = 0;
    for (size_t id = 0; id < tokens_.size(); ++id)
      if (!is(id, kUnusedToken) && !is_added(id)) ++others;
    for (size_t id = 0, next = others; id < tokens_.size(); ++id)
      if (is_added(id) && id != next++) return false;
    return true;
  }

  /// Name to id of what texts are made of: no ids without a token, nor, where `with_added` is
  /// false, tokens that are added.
  [[nodiscard]] OrderedJson vocabulary(bool with_added) const {
    OrderedJson::object_t vocabulary;  // no key is looked for: the tokenizer refuses doubles
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (!is(id, kUnusedToken) && (with_added || !is_added(id)))
        vocabulary.push_back({tokens_[id], id});
    }
    return vocabulary;
  }

  void byte_level() {
    const std::string pre = file_.text_or("tokenizer.ggml.pre", kPreWithoutName);
    const LlamaCppPattern* const pattern = find_llama_cpp_pattern(pre);
    if (pattern == nullptr)
      file_.refuse("tokenizer.ggml.pre", fmt::format("\"{}\" is not supported", pre),
                   llama_cpp_names());
    adds_bos_ = pattern->adds_bos;
    if (!is_first_of_its_kind(*pattern)) pre_ = pattern->pre;
    if (pattern->is_normalized) json_["normalizer"] = {{"type", "NFC"}};
    OrderedJson steps = OrderedJson::array();
    for (const std::string_view regex : regexes_of(*pattern)) steps.push_back(split_json(regex));
    steps.push_back(byte_level_json(false, true, false));
    json_["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", steps}};
    json_["post_processor"] = post_processor();
    json_["decoder"] = byte_level_json(false, true, true);
    OrderedJson model = bpe_json(pattern->ignores_merges);
    model["vocab"] = vocabulary(!added_follow());
    model["merges"] = file_.texts("tokenizer.ggml.merges");
    json_["model"] = std::move(model);
  }

  void sentencepiece() {
    constexpr std::string_view kCharacters = "tokenizer.ggml.precompiled_charsmap";
    constexpr std::string_view kSpaces = "tokenizer.ggml.remove_extra_whitespaces";
    const io::GgufValue* characters = file_.find_key(kCharacters);
    if (characters != nullptr && !characters->bytes.empty())
      file_.refuse(kCharacters, "is not supported", "a tokenizer that does not normalize");
    if (file_.boolean_or(kSpaces, false)) file_.refuse(kSpaces, "true is not supported", "false");
    const bool adds_space = file_.boolean_or("tokenizer.ggml.add_space_prefix", true);
    OrderedJson steps = OrderedJson::array();
    if (adds_space) steps.push_back({{"type", "Prepend"}, {"prepend", kVisibleSpace}});
    steps.push_back(
        {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kVisibleSpace}});
    json_["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
    json_["post_processor"] = post_processor();
    json_["decoder"] = decoder(adds_space);
    json_["model"] = kind_ == "t5" ? unigram() : scored_bpe();
  }

  static OrderedJson decoder(bool strips_space) {
    OrderedJson steps = {
        {{"type", "Replace"}, {"pattern", {{"String", kVisibleSpace}}}, {"content", " "}},
        {{"type", "ByteFallback"}},
        {{"type", "Fuse"}}};
    if (strips_space)
      steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    return {{"type", "Sequence"}, {"decoders", steps}};
  }

  /// The token of a character that has none.
  [[nodiscard]] size_t unknown() const {
    constexpr std::string_view kKey = "tokenizer.ggml.unknown_token_id";
    const auto typed = std::find(types_.begin(), types_.end(), kUnknownToken);
    const int64_t otherwise = typed == types_.end() ? 0 : typed - types_.begin();
    return static_cast<size_t>(file_.integer_or(kKey, 0, std::ssize(tokens_) - 1, otherwise));
  }

  [[nodiscard]] bool has_all_bytes() const {
    return std::count(types_.begin(), types_.end(), kByteToken) == 256;
  }

  [[nodiscard]] std::vector<float> scores() const {
    constexpr std::string_view kKey = "tokenizer.ggml.scores";
    std::vector<float> scores = file_.floats(kKey);
    if (scores.size() != tokens_.size())
      file_.refuse(kKey, fmt::format("{} of them", scores.size()),
                   fmt::format("{}, as there are tokens", tokens_.size()));
    return scores;
  }

  [[nodiscard]] OrderedJson unigram() const {
    const std::vector<float> scores = this->scores();
    const float lowest = *std::min_element(scores.begin(), scores.end());
    OrderedJson vocab = OrderedJson::array();
    for (size_t id = 0; id < tokens_.size(); ++id)  // by their place, those without a token too
      vocab.push_back({tokens_[id], is(id, kUnusedToken) ? lowest : scores[id]});
    return {{"type", "Unigram"},
            {"unk_id", unknown()},
            {"vocab", vocab},
            {"byte_fallback", has_all_bytes()}};
  }

  /// Any two tokens that together are one are merged, the highest score first.
  [[nodiscard]] OrderedJson scored_bpe() const {
    OrderedJson model = bpe_json(false);
    model["unk_token"] = tokens_[unknown()];
    model["fuse_unk"] = true;
    model["byte_fallback"] = has_all_bytes();
    model["vocab"] = vocabulary(true);
    OrderedJson merges = OrderedJson::array();
    for (const Merge& merge : merges_by_score())
      merges.push_back(
          {tokens_[static_cast<size_t>(merge.left)], tokens_[static_cast<size_t>(merge.right)]});
    model["merges"] = std::move(merges);
    return model;
  }

  /// [transformers convert_slow_tokenizer.py, generate_merges]
  [[nodiscard]] std::vector<Merge> merges_by_score() const {
    const std::vector<float> scores = this->scores();
    Ids ids;
    for (size_t id = 0; id < tokens_.size(); ++id)
      if (is(id, kNormalToken)) ids.emplace(tokens_[id], static_cast<int32_t>(id));
    std::vector<Merge> merges;
    for (size_t id = 0; id < tokens_.size(); ++id)
      if (is(id, kNormalToken)) add_merges(static_cast<int32_t>(id), scores[id], ids, &merges);
    std::stable_sort(merges.begin(), merges.end(),
                     [](const Merge& a, const Merge& b) { return a.score > b.score; });
    return merges;
  }

  /// Every way to cut a token into two.
  void add_merges(int32_t id, float score, const Ids& ids, std::vector<Merge>* merges) const {
    constexpr size_t kMaxBytes = 1024;  // the cuts of a token take its length squared
    const std::string_view token = tokens_[static_cast<size_t>(id)];
    if (token.size() > kMaxBytes)
      file_.refuse("tokenizer.ggml.tokens", fmt::format("a token of {} bytes", token.size()),
                   fmt::format("at most {}", kMaxBytes));
    const size_t first = merges->size();
    size_t at = 0;
    while ((at += next_character(token.substr(at)).bytes) < token.size()) {
      const auto left = ids.find(token.substr(0, at)), right = ids.find(token.substr(at));
      if (left != ids.end() && right != ids.end())
        merges->push_back({score, left->second, right->second});
    }
    std::sort(merges->begin() + static_cast<std::ptrdiff_t>(first), merges->end(),
              [](const Merge& a, const Merge& b) {
                return std::pair(a.left, a.right) < std::pair(b.left, b.right);
              });
  }

  [[nodiscard]] std::optional<size_t> special(const char* key) const {
    const std::string name = std::string("tokenizer.ggml.") + key;
    if (file_.find_key(name) == nullptr) return {};
    return static_cast<size_t>(file_.integer(name, 0, std::ssize(tokens_) - 1));
  }

  /// What stands around a text where special tokens are asked for; null: nothing.
  [[nodiscard]] OrderedJson post_processor() const {
    const auto token_where = [&](const char* flag, bool otherwise, const char* key) {
      const bool adds = file_.boolean_or(std::string("tokenizer.ggml.") + flag, otherwise);
      return adds ? special(key) : std::nullopt;
    };
    const auto bos = token_where("add_bos_token", adds_bos_, "bos_token_id");
    const auto eos = token_where("add_eos_token", false, "eos_token_id");
    if (!bos && !eos) return nullptr;
    OrderedJson specials = OrderedJson::object();
    const auto part_of = [&](const std::optional<size_t>& id) {
      const std::string& text = tokens_[*id];
      specials[text] = {{"id", text}, {"ids", {*id}}, {"tokens", {text}}};
      return OrderedJson{{"SpecialToken", {{"id", text}, {"type_id", 0}}}};
    };
    OrderedJson single = OrderedJson::array();
    OrderedJson pair = OrderedJson::array();
    for (const char* sequence : {"A", "B"}) {
      const OrderedJson text = {
          {"Sequence", {{"id", sequence}, {"type_id", sequence[0] == 'A' ? 0 : 1}}}};
      OrderedJson parts = OrderedJson::array();
      if (bos) parts.push_back(part_of(bos));
      parts.push_back(text);
      if (eos) parts.push_back(part_of(eos));
      if (sequence[0] == 'A') single = parts;
      pair.insert(pair.end(), parts.begin(), parts.end());
    }
    return {{"type", "TemplateProcessing"},
            {"single", single},
            {"pair", pair},
            {"special_tokens", specials}};
  }

  [[nodiscard]] OrderedJson config() const {
    OrderedJson config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                          {"clean_up_tokenization_spaces", false}};
    const std::pair<const char*, const char*> kTokens[] = {{"bos_token", "bos_token_id"},
                                                           {"eos_token", "eos_token_id"},
                                                           {"unk_token", "unknown_token_id"},
                                                           {"pad_token", "padding_token_id"}};
    for (const auto& [own, key] : kTokens)
      if (const auto id = special(key)) config[own] = tokens_[*id];
    const NamedTemplates templates = gguf_chat_templates(file_);
    if (!templates.empty()) config["chat_template"] = chat_templates_json(templates);
    if (!pre_.empty()) config[kPreKey] = pre_;
    return config;
  }

  const io::Gguf& file_;
  std::vector<std::string> tokens_;
  std::vector<int64_t> types_;
  std::string kind_;
  bool adds_bos_ = false;  ///< where the file does not say
  std::string_view pre_;   ///< its name where the pattern does not tell it
  OrderedJson json_;
};

}  // namespace

TokenizerFiles gguf_tokenizer_files(const io::Gguf& file) { return TokenizerOfKeys(file).make(); }

NamedTemplates gguf_chat_templates(const io::Gguf& file) {
  NamedTemplates templates;
  if (std::string jinja = file.text_or(kGgufChatTemplate, ""); !jinja.empty())
    templates.push_back({std::string(kDefaultTemplate), std::move(jinja)});
  const std::string prefix = std::string(kGgufChatTemplate) + ".";
  for (const auto& [key, value] : file.keys()) {
    if (!key.starts_with(prefix)) continue;
    templates.push_back({key.substr(prefix.size()), file.text(key)});
    require_template_name(templates.back().name, file.path(), key);
  }
  return templates;
}

}  // namespace ng
