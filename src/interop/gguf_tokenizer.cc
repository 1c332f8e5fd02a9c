#include "interop/gguf_tokenizer.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "base/files.h"
#include "interop/byte_level.h"
#include "tokenizer/byte_names.h"
#include "tokenizer/byte_tokenizer.h"

namespace ng {
namespace {

constexpr size_t kMaxFileBytes = 256 << 20;
constexpr std::string_view kPrefix = "tokenizer.ggml.";

/// [llama.cpp include/llama.h: enum llama_token_type]
enum TokenType : int32_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

/// Tokens by id, and what is known of each.
struct Tokens {
  std::vector<std::string> texts;
  std::vector<int32_t> types;

  explicit Tokens(int64_t count) : types(static_cast<size_t>(count), kUnused) {
    for (int64_t i = 0; i < count; ++i) texts.push_back(fmt::format("[PAD{}]", i));
  }
  void set(int64_t id, std::string text, int32_t type) {
    texts.at(static_cast<size_t>(id)) = std::move(text);
    types.at(static_cast<size_t>(id)) = type;
  }
  [[nodiscard]] std::optional<uint32_t> find(const std::string& text) const {
    const auto found = std::find(texts.begin(), texts.end(), text);
    if (found == texts.end()) return {};
    return static_cast<uint32_t>(found - texts.begin());
  }
};

class TokenizerKeys {
 public:
  TokenizerKeys(const Json& tokenizer, const Json& config, const std::string& place, int64_t vocab)
      : file_(tokenizer, place),
        config_(config, join_path(place, "..", "tokenizer_config.json")),
        model_(file_.object("model")),
        tokens_(vocab) {}

  io::GgufKeys make() {
    const std::string type = model_.text_or("type", "BPE");
    if (type != "BPE") model_.refuse("type", brief(Json(type)) + " has no form in GGUF", "BPE");
    read_tokens();
    if (is_byte_level(file_))
      byte_level();
    else
      sentencepiece();
    chat_template();
    return std::move(keys_);
  }

 private:
  static std::string join_path(const std::string& file, const char*, const char* name) {
    const size_t slash = file.rfind('/');
    return slash == std::string::npos ? name : file.substr(0, slash + 1) + name;
  }
  void add(std::string_view key, io::GgufValue value) {
    keys_.emplace_back(std::string(kPrefix) + std::string(key), std::move(value));
  }

  void set(const JsonObject& object, std::string_view key, const std::string& text, int64_t id,
           int32_t type) {
    const auto count = std::ssize(tokens_.texts);
    if (id < 0 || id >= count)
      object.refuse(key, fmt::format("{} of {}", id, brief(Json(text))),
                    fmt::format("ids below {}, the model's vocabulary", count));
    tokens_.set(id, text, type);
  }

  void read_tokens() {
    const JsonObject vocab = model_.object("vocab");
    for (const auto& [text, id] : vocab.value().items())
      set(vocab, text, text, vocab.integer(text, 0, INT32_MAX), kNormal);
    if (!file_.has("added_tokens")) return;
    for (const Json& token : file_.at("added_tokens")) {
      const JsonObject added(token, file_.place(), "added_tokens.");
      set(added, "id", added.text("content"), added.integer("id", 0, INT32_MAX),
          added.boolean_or("special", false) ? kControl : kUserDefined);
    }
  }

  void add_tokens() {
    add("tokens", io::GgufValue::of_texts(tokens_.texts));
    add("token_type", io::GgufValue::of_i32s(tokens_.types));
  }

  /// "a b", from either spelling.
  [[nodiscard]] std::vector<std::string> merges() const {
    std::vector<std::string> merges;
    if (!model_.has("merges")) return merges;
    for (const Json& merge : model_.at("merges")) {
      const bool is_pair =
          merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
      std::string text = is_pair ? merge[0].get<std::string>() + ' ' + merge[1].get<std::string>()
                         : merge.is_string() ? merge.get<std::string>()
                                             : "";
      if (text.find(' ') == std::string::npos)
        model_.refuse("merges", brief(merge), "\"a b\" or [\"a\", \"b\"]");
      merges.push_back(std::move(text));
    }
    return merges;
  }

  /// The content of a special token of tokenizer_config.json.
  [[nodiscard]] std::optional<uint32_t> special(const char* key) const {
    if (!config_.has(key)) return {};
    const Json& token = config_.at(key);
    const std::string text =
        token.is_string() ? token.get<std::string>() : config_.object(key).text("content");
    const std::optional<uint32_t> id = tokens_.find(text);
    if (!id) config_.refuse(key, brief(Json(text)), "a token of tokenizer.json");
    return id;
  }

  void add_special_ids() {
    constexpr std::array<std::pair<const char*, const char*>, 3> kIds = {
        {{"bos_token", "bos_token_id"},
         {"eos_token", "eos_token_id"},
         {"pad_token", "padding_token_id"}}};
    for (const auto& [own, key] : kIds)
      if (const auto id = special(own)) add(key, io::GgufValue::of_u32(*id));
    const AddedAround around = added_around(file_);
    add("add_bos_token", io::GgufValue::of_boolean(around.before));
    add("add_eos_token", io::GgufValue::of_boolean(around.after));
  }

  void byte_level() {
    add("model", io::GgufValue::of_text("gpt2"));
    if (is_bytes(model_)) return bytes();
    add("pre", io::GgufValue::of_text(llama_cpp_pattern(file_)));
    add_tokens();
    add("merges", io::GgufValue::of_texts(merges()));
    add_special_ids();
  }

  /// smollm: with gpt-2 the detokenizer takes away spaces before punctuation.
  void bytes() {
    constexpr int64_t kEnd = ByteTokenizer::kEnd;
    if (std::ssize(tokens_.texts) <= kEnd)
      model_.refuse("vocab", "256 tokens", "a model with as many ids");
    tokens_.set(kEnd, std::string(ByteTokenizer::kEndText), kControl);
    add("pre", io::GgufValue::of_text("smollm"));
    add_tokens();
    add("merges", io::GgufValue::of_texts({}));
    for (const char* key : {"bos_token_id", "eos_token_id", "padding_token_id"})
      add(key, io::GgufValue::of_u32(kEnd));
    for (const char* key : {"add_bos_token", "add_eos_token"})
      add(key, io::GgufValue::of_boolean(false));
  }

  void sentencepiece() {
    const SentencepieceForm form = sentencepiece_form(file_);
    const std::string unknown = model_.text_or("unk_token", "");
    std::vector<float> scores(tokens_.texts.size());
    const std::vector<std::string> ranked = merges();
    for (size_t rank = ranked.size(); rank-- > 0;) {  // the first merge of a piece counts
      std::string piece = ranked[rank];
      piece.erase(piece.find(' '), 1);
      if (const auto found = vocab_id(piece)) scores[*found] = 0.0f - static_cast<float>(rank);
    }
    for (size_t i = 0; i < tokens_.texts.size(); ++i) {
      if (tokens_.types[i] == kUnused) continue;
      if (!unknown.empty() && tokens_.texts[i] == unknown) tokens_.types[i] = kUnknown;
      if (form.byte_fallback && is_byte_piece(tokens_.texts[i])) tokens_.types[i] = kByte;
    }
    add("model", io::GgufValue::of_text("llama"));
    add("tokens", io::GgufValue::of_texts(tokens_.texts));
    add("scores", io::GgufValue::of_f32s(scores));
    add("token_type", io::GgufValue::of_i32s(tokens_.types));
    if (!unknown.empty())
      if (const auto id = tokens_.find(unknown))
        add("unknown_token_id", io::GgufValue::of_u32(*id));
    add_special_ids();
    add("add_space_prefix", io::GgufValue::of_boolean(form.adds_space));
  }

  [[nodiscard]] std::optional<size_t> vocab_id(const std::string& piece) const {
    const Json& vocab = model_.at("vocab");
    const auto found = vocab.find(piece);
    if (found == vocab.end()) return {};
    return found->get<size_t>();
  }

  void chat_template() {
    if (config_.has("chat_template") && config_.at("chat_template").is_string())
      keys_.emplace_back("tokenizer.chat_template",
                         io::GgufValue::of_text(config_.text("chat_template")));
  }

  JsonObject file_, config_, model_;
  Tokens tokens_;
  io::GgufKeys keys_;
};

}  // namespace

io::GgufKeys tokenizer_keys(const Json& tokenizer, const Json& config, const std::string& place,
                            int64_t vocab) {
  return TokenizerKeys(tokenizer, config, place, vocab).make();
}

io::GgufKeys tokenizer_keys(const std::string& model, int64_t vocab) {
  io::GgufKeys keys;
  if (io::is_gguf(model)) {
    const io::Gguf file(model);
    for (const auto& [key, value] : file.keys())
      if (key.starts_with("tokenizer.")) keys.emplace_back(key, value);
    return keys;
  }
  const std::string place = join_path(model, "tokenizer.json");
  if (!is_file(place)) return {{std::string(kPrefix) + "model", io::GgufValue::of_text("none")}};
  const std::string beside = join_path(model, "tokenizer_config.json");
  const Json config =
      is_file(beside) ? read_json_file(beside, kMaxFileBytes) : Json(Json::object());
  return tokenizer_keys(read_json_file(place, kMaxFileBytes), config, place, vocab);
}

bool is_byte_tokenizer(const io::Gguf& file) {
  if (file.text_or("tokenizer.ggml.model", "none") != "gpt2") return false;
  if (!file.texts("tokenizer.ggml.merges").empty()) return false;
  const std::vector<std::string>& tokens = file.texts("tokenizer.ggml.tokens");
  const auto& names = byte_names();
  return tokens.size() == names.size() &&
         std::equal(names.begin(), names.end() - 1, tokens.begin());
}

std::unique_ptr<Tokenizer> open_gguf_tokenizer(const io::Gguf& file) {
  if (is_byte_tokenizer(file)) return std::make_unique<ByteTokenizer>();
  file.refuse("tokenizer.ggml.model",
              fmt::format("\"{}\" is not supported", file.text_or("tokenizer.ggml.model", "none")),
              "the byte tokenizer that export writes");
}

}  // namespace ng
