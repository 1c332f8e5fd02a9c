#include "tokenizer/subword_tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"

namespace ng {
namespace {

/// Post-processors put tokens around a whole text, which encode() leaves to text_begin().
void check_post_processor(const JsonObject& file) {
  if (!file.has("post_processor")) return;
  const JsonObject whole = file.object("post_processor");
  const auto check = [&](const Json& step, const std::string& key) {
    const JsonObject processor(step, file.place(), key + ".");
    const std::string type = processor.text("type");
    if (type != "ByteLevel" && type != "TemplateProcessing")
      processor.refuse("type", fmt::format("\"{}\" is not supported", type),
                       "ByteLevel, TemplateProcessing, or a Sequence of them");
  };
  if (whole.text("type") != "Sequence") return check(whole.value(), "post_processor");
  const Json& steps = whole.at("processors", "a list of processors");
  if (!steps.is_array()) whole.refuse("processors", brief(steps), "a list");
  for (const Json& step : steps) check(step, "post_processor.processors");
}

/// The first place from `at` on that lies between an ASCII letter and white space; else the end.
size_t end_of_word(std::string_view text, size_t at) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  for (at = std::max<size_t>(at, 1); at < text.size(); ++at)
    if ((text[at] == ' ' || text[at] == '\n' || text[at] == '\r') && is_letter(text[at - 1])) break;
  return std::min(at, text.size());
}

}  // namespace

/// A part of a text as rewritten, and where it comes from.
struct SubwordTokenizer::Level {
  const Level* above;  ///< nullptr: the text that was given
  int64_t begin;       ///< in the text above
  const RewrittenText* rewritten;

  [[nodiscard]] int64_t place_of(int64_t at) const {
    for (const Level* level = this; level != nullptr; level = level->above)
      at = level->begin + level->rewritten->place_of(at);
    return at;
  }
};

/// Scratch of the tokenizer's, which goes back to it.
class SubwordTokenizer::Scratch {
 public:
  explicit Scratch(const SubwordTokenizer& of) : of_(of) {
    const std::lock_guard lock(of_.mutex_);
    if (!of_.idle_.empty()) {
      scratch_ = std::move(of_.idle_.back());
      of_.idle_.pop_back();
      return;
    }
    scratch_ = std::make_unique<EncodeScratch>();
    scratch_->splits.resize(of_.pre_tokenizer_.patterns());
  }
  ~Scratch() {
    const std::lock_guard lock(of_.mutex_);
    of_.idle_.push_back(std::move(scratch_));
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] EncodeScratch& use() const { return *scratch_; }

 private:
  const SubwordTokenizer& of_;
  std::unique_ptr<EncodeScratch> scratch_;
};

SubwordTokenizer::SubwordTokenizer(const Json& json, TokenizerFiles files)
    : files_(std::move(files)),
      normalizer_(JsonObject(json, files_.json_place)),
      pre_tokenizer_(JsonObject(json, files_.json_place)) {
  const JsonObject file(json, files_.json_place);
  check_post_processor(file);
  model_ = read_subword_model(file.object("model"), pre_tokenizer_.is_of_bytes(), vocabulary_);
  read_added_tokens(file);
  texts_ =
      std::make_unique<TokenTexts>(file, pre_tokenizer_.is_of_bytes(), vocabulary_.names, added_);
  read_settings(file);
}

SubwordTokenizer::~SubwordTokenizer() = default;

void SubwordTokenizer::read_added_tokens(const JsonObject& file) {
  std::vector<AddedToken> raw, normalized;
  const Json none = Json::array();
  const Json& list = file.has("added_tokens") ? file.at("added_tokens") : none;
  if (!list.is_array()) file.refuse("added_tokens", brief(list), "a list");
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string key = fmt::format("added_tokens[{}]", i);
    const JsonObject entry(list[i], file.place(), key + ".");
    AddedToken token{.id = static_cast<int32_t>(entry.integer("id", 0, INT32_MAX)),
                     .content = entry.text("content"),
                     .single_word = entry.boolean_or("single_word", false),
                     .lstrip = entry.boolean_or("lstrip", false),
                     .rstrip = entry.boolean_or("rstrip", false),
                     .normalized = entry.boolean_or("normalized", false),
                     .special = entry.boolean_or("special", false)};
    if (token.content.empty()) entry.refuse("content", "empty", "a text");
    vocabulary_.add(token.content, token.id, file, key);
    RewrittenText text(token.content, false);
    if (token.normalized) normalizer_.apply(text);
    added_.push_back({token, std::string(text.text())});
    if (!token.normalized) {
      raw.push_back(std::move(token));
    } else if (!text.text().empty()) {
      token.content = text.text();
      normalized.push_back(std::move(token));
    }
  }
  raw_tokens_ = std::make_unique<AddedTokens>(std::move(raw));
  normalized_tokens_ = std::make_unique<AddedTokens>(std::move(normalized));
}

void SubwordTokenizer::read_settings(const JsonObject& file) {
  const Json json = tokenizer_settings(files_);
  const JsonObject settings(json, files_.config_place);
  special_ = special_ids(file, settings,
                         [&](const std::string& content) { return vocabulary_.id_of(content); });
  if (special_.bos && *special_.bos < std::ssize(vocabulary_.names))
    bos_ = vocabulary_.names[static_cast<size_t>(*special_.bos)];
  chat_template_ = default_template(chat_templates_in(settings));
}

bool SubwordTokenizer::keeps_words_apart() const {
  const auto has_space = [](const std::string& text) {
    return text.find_first_of(" \t\n\v\f\r") != std::string::npos;
  };
  return normalizer_.keeps_words_apart() && pre_tokenizer_.keeps_words_apart() &&
         std::none_of(added_.begin(), added_.end(), [&](const NamedToken& named) {
           const AddedToken& token = named.token;
           return token.lstrip || token.rstrip || token.single_word || has_space(token.content) ||
                  has_space(named.normalized);
         });
}

std::vector<std::string_view> SubwordTokenizer::separate_parts(std::string_view text,
                                                               size_t bytes) const {
  if (text.size() <= bytes || !keeps_words_apart()) return {text};
  std::vector<std::string_view> parts;
  while (text.size() > bytes) {
    const size_t end = end_of_word(text, bytes);
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  if (!text.empty()) parts.push_back(text);
  return parts;
}

// Added tokens of the raw text, then those of the normalized text between them, then the rest.
PlacedTokens SubwordTokenizer::encoded(std::string_view text, SpecialTokens special,
                                       bool with_starts) const {
  const Scratch scratch(*this);
  TokenList out{.tokens = {}, .with_starts = with_starts};
  out.tokens.ids.reserve(text.size() / 4);
  RewrittenText valid(text, with_starts);
  valid.make_valid();
  const Level whole{nullptr, 0, &valid};
  for (const AddedTokens::Part& part : raw_tokens_->parts_of(valid.text(), special)) {
    const auto begin = static_cast<int64_t>(part.begin);
    if (part.id) {
      out.add(*part.id, with_starts ? whole.place_of(begin) : 0);
      continue;
    }
    RewrittenText normalized(valid.text().substr(part.begin, part.end - part.begin), with_starts);
    normalizer_.apply(normalized);
    encode_normalized({&whole, begin, &normalized}, special, scratch.use(), out);
  }
  return std::move(out.tokens);
}

void SubwordTokenizer::encode_normalized(const Level& level, SpecialTokens special,
                                         EncodeScratch& scratch, TokenList& out) const {
  const std::string_view text = level.rewritten->text();
  for (const AddedTokens::Part& part : normalized_tokens_->parts_of(text, special)) {
    const auto begin = static_cast<int64_t>(part.begin);
    if (part.id) {
      out.add(*part.id, out.with_starts ? level.place_of(begin) : 0);
      continue;
    }
    RewrittenText spaced(text.substr(part.begin, part.end - part.begin), out.with_starts);
    pre_tokenizer_.rewrite(spaced, level.begin == 0 && part.begin == 0);
    encode_ordinary({&level, begin, &spaced}, scratch, out);
  }
}

void SubwordTokenizer::encode_ordinary(const Level& level, EncodeScratch& scratch,
                                       TokenList& out) const {
  const std::string_view text = level.rewritten->text();
  const size_t first = out.tokens.starts.size();
  pre_tokenizer_.for_pieces(text, scratch, [&](size_t begin, size_t end) {
    model_->encode(text.substr(begin, end - begin), static_cast<int64_t>(begin), scratch, out);
  });
  for (size_t i = first; i < out.tokens.starts.size(); ++i)
    out.tokens.starts[i] = level.place_of(out.tokens.starts[i]);
}

std::string SubwordTokenizer::decode(std::span<const int32_t> ids) const {
  for (int32_t id : ids) {
    if (id < 0 || id >= vocab()) {
      throw Error({.place = files_.json_place,
                   .key = "token id",
                   .problem = fmt::format("{}", id),
                   .remedy = fmt::format("an id from 0 to {}", vocab() - 1)});
    }
  }
  return texts_->joined(ids);
}

std::string SubwordTokenizer::decode_text(std::span<const int32_t> ids) const {
  return as_utf8(decode(ids));
}

int64_t SubwordTokenizer::text_bytes(int32_t id) const {
  return id == special_.end ? 0 : static_cast<int64_t>(texts_->of(id).size());
}

void SubwordTokenizer::save(const std::string& folder) const {
  TokenizerFiles files = files_;
  if (files.config.empty()) {
    OrderedJson json = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                        {"clean_up_tokenization_spaces", false}};
    if (special_.end && files.tokens.empty())
      json["eos_token"] = kUsualEnd;  // without a configuration it is no other
    files.config = json_text(json, 1) + "\n";
  }
  write_tokenizer_files(folder, files);
}

}  // namespace ng
