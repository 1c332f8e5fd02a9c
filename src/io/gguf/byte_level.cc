#include "io/gguf/byte_level.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/error.h"
#include "tokenizer/byte_names.h"
#include "tokenizer/byte_tokenizer.h"
#include "tokenizer/known_patterns.h"

namespace ng {
namespace {

// Of several names of one kind the first is written. [llama.cpp src/llama-vocab.cpp] GPT-2's last
// alternative, white space, is what lies between matches without it.
constexpr LlamaCppPattern kPatterns[] = {
    {.pre = "gpt-2", .patterns = {"gpt2"}},
    {.pre = "llama-bpe", .patterns = {"llama3"}, .ignores_merges = true, .adds_bos = true},
    {.pre = "llama3", .patterns = {"llama3"}, .ignores_merges = true, .adds_bos = true},
    {.pre = "llama-v3", .patterns = {"llama3"}, .ignores_merges = true, .adds_bos = true},
    {.pre = "qwen2", .patterns = {"qwen2"}, .is_normalized = true},
    {.pre = "deepseek-r1-qwen", .patterns = {"qwen2"}, .is_normalized = true},
    {.pre = "qwen35", .patterns = {"qwen35"}, .is_normalized = true},
    {.pre = "gpt-4o", .patterns = {"o200k"}, .ignores_merges = true},
    {.pre = "smollm", .patterns = {"digit", "gpt2"}},
    {.pre = "starcoder", .patterns = {"digit", "gpt2"}, .cleans_spaces = true},
    {.pre = "refact", .patterns = {"digit", "gpt2"}, .cleans_spaces = true},
    {.pre = "command-r", .patterns = {"digit", "gpt2"}, .is_normalized = true},
    {.pre = "deepseek-llm",
     .patterns = {"line end", "deepseek letters", "deepseek marks", "last spaces", "deepseek CJK",
                  "digits"}},
    {.pre = "deepseek-llm",  // as its tokenizer.json is, which knows no token of several digits
     .patterns = {"line end", "deepseek letters", "deepseek marks", "last spaces", "deepseek CJK",
                  "digit"}},
    {.pre = "deepseek-coder",
     .patterns = {"line end", "letters", "marks", "deepseek CJK", "digit"}},
    {.pre = "deepseek-v3", .patterns = {"3 digits", "deepseek-v3 CJK", "deepseek-v3"}},
    {.pre = kPreWithoutName,
     .patterns = {"marks of llama.cpp", "gpt2", "digits", "3 ASCII digits"}}};

/// The members of a Sequence, or the one that stands alone; none of null.
std::vector<JsonObject> steps_of(const JsonObject& tokenizer, const char* key, const char* list) {
  std::vector<JsonObject> steps;
  if (!tokenizer.has(key)) return steps;
  const JsonObject one = tokenizer.object(key);
  if (one.text("type") != "Sequence") return {one};
  const std::string prefix = std::string(key) + ".";
  for (const Json& step : one.at(list)) steps.emplace_back(step, tokenizer.place(), prefix);
  return steps;
}

std::vector<JsonObject> pre_tokenizers(const JsonObject& tokenizer) {
  return steps_of(tokenizer, "pre_tokenizer", "pretokenizers");
}

/// The regular expressions by which texts are cut: of Splits, Digits, or ByteLevel's own.
std::vector<std::string> regexes_of(const JsonObject& tokenizer) {
  std::vector<std::string> regexes;
  for (const JsonObject& step : pre_tokenizers(tokenizer)) {
    const std::string type = step.text("type");
    if (type != "ByteLevel" && type != "Split" && type != "Digits")
      step.refuse("type", fmt::format("{} has no form in GGUF here", brief(Json(type))),
                  "Split, Digits and ByteLevel");
    if (type == "ByteLevel" && step.boolean_or("add_prefix_space", true))
      step.refuse("add_prefix_space", "true has no form in GGUF", "false");
    if (type == "Split")
      regexes.push_back(canonical_pattern(step.object("pattern").text("Regex")));
    else if (type == "Digits")
      regexes.emplace_back(
          known_pattern(step.boolean_or("individual_digits", false) ? "digit" : "digits"));
    else if (step.boolean_or("use_regex", true))
      regexes.emplace_back(known_pattern("gpt2"));
  }
  return regexes;
}

bool cuts_by(const LlamaCppPattern& pattern, const std::vector<std::string>& regexes) {
  const std::vector<std::string_view> own = ng::regexes_of(pattern);
  return std::equal(own.begin(), own.end(), regexes.begin(), regexes.end());
}

void refuse_normalizer(const JsonObject& tokenizer, const LlamaCppPattern& pattern) {
  for (const JsonObject& step : steps_of(tokenizer, "normalizer", "normalizers"))
    if (!pattern.is_normalized || step.text("type") != "NFC")
      tokenizer.refuse("normalizer", step.text("type") + " has no form in GGUF", "none");
}

}  // namespace

bool is_byte_level(const JsonObject& tokenizer) {
  const std::vector<JsonObject> steps = pre_tokenizers(tokenizer);
  return std::any_of(steps.begin(), steps.end(),
                     [](const JsonObject& step) { return step.text("type") == "ByteLevel"; });
}

bool is_bytes(const JsonObject& model) {
  const Json& vocab = model.at("vocab");
  if (model.has("merges") && !model.at("merges").empty()) return false;
  if (!vocab.is_object() || vocab.size() != byte_names().size()) return false;
  for (size_t byte = 0; byte < byte_names().size(); ++byte) {
    const bool is_last = byte + 1 == byte_names().size();
    auto found = vocab.find(byte_names()[byte]);
    if (found == vocab.end() && is_last) found = vocab.find(ByteTokenizer::kEndText);
    if (found == vocab.end() || *found != byte) return false;
  }
  return true;
}

const LlamaCppPattern& llama_cpp_pattern(const JsonObject& tokenizer, const JsonObject& config) {
  const std::vector<std::string> regexes = regexes_of(tokenizer);
  const std::string pre = config.text_or(kPreKey, "");
  const auto fit = [&](const LlamaCppPattern& each) {
    if (!cuts_by(each, regexes)) return 0;
    const bool cleans = config.boolean_or("clean_up_tokenization_spaces", false);
    return 1 + (each.is_normalized == is_normalized(tokenizer) ? 4 : 0) +
           (each.pre == pre ? 2 : 0) + (each.cleans_spaces == cleans ? 1 : 0);
  };
  const auto* found = std::max_element(
      std::begin(kPatterns), std::end(kPatterns),
      [&](const LlamaCppPattern& a, const LlamaCppPattern& b) { return fit(a) < fit(b); });
  if (fit(*found) == 0)
    tokenizer.refuse(
        "pre_tokenizer",
        brief(regexes.size() == 1 ? Json(regexes.front()) : Json(regexes)) + " has no form in GGUF",
        "a pattern of " + llama_cpp_names());
  refuse_normalizer(tokenizer, *found);
  return *found;
}

const LlamaCppPattern* find_llama_cpp_pattern(std::string_view pre) {
  const auto* found = std::find_if(std::begin(kPatterns), std::end(kPatterns),
                                   [&](const LlamaCppPattern& each) { return each.pre == pre; });
  return found == std::end(kPatterns) ? nullptr : found;
}

bool is_first_of_its_kind(const LlamaCppPattern& pattern) {
  const auto* first =
      std::find_if(std::begin(kPatterns), std::end(kPatterns), [&](const LlamaCppPattern& each) {
        return each.patterns == pattern.patterns && each.is_normalized == pattern.is_normalized;
      });
  return first == &pattern;
}

std::string llama_cpp_names() {
  std::string names;
  std::string_view last;
  for (const LlamaCppPattern& each : kPatterns) {
    if (each.pre == last || each.pre == kPreWithoutName) continue;
    names += names.empty() ? "" : ", ";
    names += each.pre;
    last = each.pre;
  }
  return names;
}

std::vector<std::string_view> regexes_of(const LlamaCppPattern& pattern) {
  std::vector<std::string_view> regexes;
  for (const std::string_view name : pattern.patterns)
    if (!name.empty()) regexes.push_back(known_pattern(name));
  return regexes;
}

bool is_normalized(const JsonObject& tokenizer) {
  const std::vector<JsonObject> steps = steps_of(tokenizer, "normalizer", "normalizers");
  return std::any_of(steps.begin(), steps.end(),
                     [](const JsonObject& step) { return step.text("type") == "NFC"; });
}

SentencepieceForm sentencepiece_form(const JsonObject& tokenizer) {
  SentencepieceForm form{.byte_fallback =
                             tokenizer.object("model").boolean_or("byte_fallback", false)};
  for (const JsonObject& step : pre_tokenizers(tokenizer)) {
    if (step.text("type") != "Metaspace" ||
        step.text_or("replacement", kVisibleSpace) != kVisibleSpace)
      step.refuse("type", brief(Json(step.text("type"))) + " has no form in GGUF",
                  "ByteLevel or Metaspace");
    form.adds_space = step.text_or("prepend_scheme", "always") != "never";
    return form;
  }
  bool replaces = false;
  for (const JsonObject& step : steps_of(tokenizer, "normalizer", "normalizers")) {
    const std::string type = step.text("type");
    if (type == "Prepend") form.adds_space = form.adds_always = true;
    if (type == "Replace") replaces = true;
    if (type != "Prepend" && type != "Replace")
      tokenizer.refuse("normalizer", type + " has no form in GGUF", "Prepend and Replace");
  }
  if (!replaces)
    tokenizer.refuse("pre_tokenizer", "cuts otherwise than GGUF knows",
                     "ByteLevel, Metaspace, or Prepend and Replace as normalizer");
  return form;
}

bool is_byte_piece(std::string_view token) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return token.size() == 6 && token.starts_with("<0x") && token.back() == '>' &&
         kDigits.find(token[3]) != std::string_view::npos &&
         kDigits.find(token[4]) != std::string_view::npos;
}

}  // namespace ng
