#include "io/gguf/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/files.h"
#include "io/gguf/byte_level.h"
#include "io/gguf/special_keys.h"
#include "io/gguf/token_types.h"
#include "io/gguf/tokenizer_files.h"
#include "io/model_files.h"
#include "tokenizer/byte_names.h"
#include "tokenizer/byte_tokenizer.h"
#include "tokenizer/subword_tokenizer.h"

namespace ng {
namespace {

constexpr std::string_view kPrefix = "tokenizer.ggml.";
constexpr std::string_view kNone = "none";  // the kind of tokenizer of a file without

/// Tokens by id, and what is known of each.
struct Tokens {
  std::vector<std::string> texts;
  std::vector<int32_t> types;

  explicit Tokens(int64_t count) : types(static_cast<size_t>(count), kUnusedToken) {
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
  TokenizerKeys(const Json& tokenizer, const Json& config, const std::string& place, int64_t vocab,
                const io::ModelSettings& settings)
      : file_(tokenizer, place),
        config_(config, join_path(place, "..", "tokenizer_config.json")),
        model_(file_.object("model")),
        settings_(settings),
        tokens_(vocab) {}

  GgufTokenizer make() {
    const std::string type = model_.text_or("type", "BPE");
    const bool is_unigram = type == "Unigram" && !is_byte_level(file_);
    if (type != "BPE" && !is_unigram)
      model_.refuse("type", brief(Json(type)) + " has no form in GGUF", "BPE or Unigram");
    is_unigram ? read_pieces() : read_vocab();
    read_added();
    if (is_unigram)
      unigram();
    else if (is_byte_level(file_))
      byte_level();
    else
      sentencepiece();
    add_chat_templates(config_, &keys_, &notes_);
    note_options();
    return {std::move(keys_), std::move(notes_)};
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

  void read_vocab() {
    const JsonObject vocab = model_.object("vocab");
    for (const auto& [text, id] : vocab.value().items())
      set(vocab, text, text, vocab.integer(text, 0, INT32_MAX), kNormalToken);
  }

  /// Of a Unigram: names and scores, by id.
  void read_pieces() {
    const Json& pieces = model_.at("vocab");
    if (!pieces.is_array()) model_.refuse("vocab", brief(pieces), "a list of names and scores");
    scores_.resize(tokens_.texts.size());
    for (size_t id = 0; id < pieces.size(); ++id) {
      const Json& piece = pieces[id];
      if (!piece.is_array() || piece.size() != 2 || !piece[0].is_string() || !piece[1].is_number())
        model_.refuse("vocab", brief(piece), "[name, score]");
      set(model_, "vocab", piece[0].get<std::string>(), static_cast<int64_t>(id), kNormalToken);
      scores_.at(id) = piece[1].get<float>();
    }
  }

  void read_added() {
    if (!file_.has("added_tokens")) return;
    for (const Json& token : file_.at("added_tokens")) {
      const JsonObject added(token, file_.place(), "added_tokens.");
      set(added, "id", added.text("content"), added.integer("id", 0, INT32_MAX),
          added.boolean_or("special", false) ? kControlToken : kUserDefinedToken);
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

  /// `otherwise`: what begins, ends and fills texts where nothing says so.
  void add_special_ids(std::optional<int32_t> otherwise = {}) {
    io::add_special_keys({.tokenizer = file_,
                          .config = config_,
                          .settings = settings_,
                          .tokens = tokens_.texts,
                          .otherwise = otherwise},
                         &keys_, &notes_);
  }

  void byte_level() {
    add("model", io::GgufValue::of_text("gpt2"));
    if (is_bytes(model_)) return bytes();
    const LlamaCppPattern& pattern = llama_cpp_pattern(file_, config_);
    add("pre", io::GgufValue::of_text(std::string(pattern.pre)));
    note_pattern(pattern);
    add_tokens();
    add("merges", io::GgufValue::of_texts(merges()));
    add_special_ids();
  }

  /// smollm: with gpt-2 the detokenizer takes away spaces before punctuation.
  void bytes() {
    constexpr int64_t kEnd = ByteTokenizer::kEnd;
    if (std::ssize(tokens_.texts) <= kEnd)
      model_.refuse("vocab", "256 tokens", "a model with as many ids");
    tokens_.set(kEnd, std::string(ByteTokenizer::kEndText), kControlToken);
    add("pre", io::GgufValue::of_text("smollm"));
    add_tokens();
    add("merges", io::GgufValue::of_texts({}));
    add_special_ids(kEnd);
  }

  void sentencepiece() {
    std::vector<float>& scores = scores_;
    scores.resize(tokens_.texts.size());
    const std::vector<std::string> ranked = merges();
    for (size_t rank = ranked.size(); rank-- > 0;) {  // the first merge of a piece counts
      std::string piece = ranked[rank];
      piece.erase(piece.find(' '), 1);
      if (const auto found = vocab_id(piece)) scores[*found] = 0.0f - static_cast<float>(rank);
    }
    const std::string unknown = model_.text_or("unk_token", "");
    add_pieces("llama", unknown.empty() ? std::optional<uint32_t>() : tokens_.find(unknown));
  }

  void unigram() {
    const auto count = std::ssize(model_.at("vocab"));
    const auto unknown = static_cast<uint32_t>(model_.integer("unk_id", 0, count - 1));
    add_pieces("t5", unknown);
    add("remove_extra_whitespaces", io::GgufValue::of_boolean(false));
    if (sentencepiece_form(file_).byte_fallback)
      notes_.emplace_back(
          "the Unigram of llama.cpp has no bytes: a character without a token is unknown there");
  }

  /// Tokens with scores. `unknown`: the one of characters that have none.
  void add_pieces(const char* kind, const std::optional<uint32_t>& unknown) {
    const SentencepieceForm form = sentencepiece_form(file_);
    if (unknown) tokens_.types.at(*unknown) = kUnknownToken;
    for (size_t i = 0; i < tokens_.texts.size(); ++i)
      if (form.byte_fallback && is_byte_piece(tokens_.texts[i])) tokens_.types[i] = kByteToken;
    add("model", io::GgufValue::of_text(kind));
    add("tokens", io::GgufValue::of_texts(tokens_.texts));
    add("scores", io::GgufValue::of_f32s(scores_));
    add("token_type", io::GgufValue::of_i32s(tokens_.types));
    if (unknown) add("unknown_token_id", io::GgufValue::of_u32(*unknown));
    add_special_ids();
    add("add_space_prefix", io::GgufValue::of_boolean(form.adds_space));
    if (form.adds_space && !form.adds_always)
      notes_.emplace_back(
          "GGUF has no Metaspace: readers put a space before a text that begins with one, and "
          "behind special tokens, too");
  }

  /// What llama.cpp's name of a pattern says beyond the pattern.
  void note_pattern(const LlamaCppPattern& pattern) {
    if (is_normalized(file_))
      notes_.emplace_back("the tokenizer composes texts (NFC), llama.cpp does not");
    else if (pattern.is_normalized)
      notes_.push_back(fmt::format(
          "the tokenizer does not compose texts (NFC), other readers of {} do", pattern.pre));
    if (find_llama_cpp_pattern(pattern.pre)->patterns != pattern.patterns)
      notes_.push_back(fmt::format(
          "readers of {} take digits together: ids differ where a token has several", pattern.pre));
    if (model_.boolean_or("ignore_merges", false) != pattern.ignores_merges)
      notes_.push_back(fmt::format("ignore_merges is {} here, {} with readers of {}",
                                   !pattern.ignores_merges, pattern.ignores_merges, pattern.pre));
  }

  void note_options() {
    if (!file_.has("added_tokens")) return;
    std::vector<std::string> lost;
    for (const Json& token : file_.at("added_tokens")) {
      const JsonObject added(token, file_.place(), "added_tokens.");
      for (const char* option : {"single_word", "lstrip", "rstrip"})
        if (added.boolean_or(option, false))
          lost.push_back(fmt::format("{} of {}", option, brief(added.at("content"))));
    }
    if (!lost.empty())
      notes_.push_back(fmt::format("GGUF cannot say of added tokens: {}", fmt::join(lost, ", ")));
  }

  [[nodiscard]] std::optional<size_t> vocab_id(const std::string& piece) const {
    const Json& vocab = model_.at("vocab");
    const auto found = vocab.find(piece);
    if (found == vocab.end()) return {};
    return found->get<size_t>();
  }

  JsonObject file_, config_, model_;
  const io::ModelSettings& settings_;
  Tokens tokens_;
  std::vector<float> scores_;  ///< of sentencepiece's kinds, by id
  io::GgufKeys keys_;
  std::vector<std::string> notes_;
};

/// Whether the keys are those of the byte tokenizer with its end token; ids behind it have none.
bool is_byte_tokenizer(const io::Gguf& file) {
  if (file.text_or("tokenizer.ggml.model", kNone) != "gpt2") return false;
  if (!file.texts("tokenizer.ggml.merges").empty()) return false;
  const std::vector<std::string>& tokens = file.texts("tokenizer.ggml.tokens");
  const std::vector<int64_t> types = file.integers("tokenizer.ggml.token_type");
  const auto& names = byte_names();
  const bool has_more = tokens.size() > names.size();
  if (tokens.size() < names.size() || (has_more && types.size() != tokens.size())) return false;
  return std::equal(names.begin(), names.end() - 1, tokens.begin()) &&
         (!has_more || std::all_of(types.begin() + std::ssize(names), types.end(),
                                   [](int64_t type) { return type == kUnusedToken; }));
}

}  // namespace

GgufTokenizer gguf_tokenizer(const Json& tokenizer, const Json& config, const std::string& place,
                             int64_t vocab, const io::ModelSettings& settings) {
  return TokenizerKeys(tokenizer, config, place, vocab, settings).make();
}

GgufTokenizer gguf_tokenizer(const io::ModelName& model, int64_t vocab) {
  const std::string place = io::tokenizer_place(model);
  if (io::is_gguf(place)) {
    GgufTokenizer own;
    const io::Gguf file(place);
    for (const auto& [key, value] : file.keys())
      if (key.starts_with("tokenizer.")) own.keys.emplace_back(key, value);
    return own;
  }
  const TokenizerFiles files = read_tokenizer_files(join_path(place, kTokenizerJson));
  const io::ModelSettings settings = io::whole_model_settings(model, vocab);
  if (files.json.empty()) {
    GgufTokenizer none{.keys = {{std::string(kPrefix) + "model", io::GgufValue::of_text(kNone)}}};
    io::add_setting_keys(settings, vocab, &none.keys);
    return none;
  }
  return gguf_tokenizer(parse_json(files.json, files.json_place), tokenizer_settings(files),
                        files.json_place, vocab, settings);
}

bool has_tokenizer(const io::Gguf& file) {
  return file.text_or("tokenizer.ggml.model", kNone) != kNone;
}

std::optional<std::string> note_of_pattern(const io::Gguf& file) {
  if (file.text_or("tokenizer.ggml.model", kNone) != "gpt2" ||
      file.find_key("tokenizer.ggml.pre") != nullptr || is_byte_tokenizer(file))
    return {};
  return "the file does not name its pre-tokenizer (tokenizer.ggml.pre): texts are cut as "
         "llama.cpp does then, which may not be as the model was trained";
}

std::unique_ptr<Tokenizer> open_gguf_tokenizer(const io::Gguf& file) {
  if (!has_tokenizer(file))
    file.refuse("tokenizer.ggml.model", "is none", "a file with a tokenizer");
  if (is_byte_tokenizer(file)) return std::make_unique<ByteTokenizer>(gguf_chat_templates(file));
  TokenizerFiles files = gguf_tokenizer_files(file);
  const Json json = parse_json(files.json, files.json_place);
  return std::make_unique<SubwordTokenizer>(json, std::move(files));
}

}  // namespace ng
