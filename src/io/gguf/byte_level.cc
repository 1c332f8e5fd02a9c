#include "io/gguf/byte_level.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "tokenizer/byte_names.h"
#include "tokenizer/byte_tokenizer.h"
#include "tokenizer/split_pattern.h"

namespace ng {
namespace {

// Of several names of one pattern the first is written. [llama.cpp src/llama-vocab.cpp]
constexpr std::array<LlamaCppPattern, 8> kPatterns = {
    {{.pre = "gpt-2", .name = "gpt2"},
     {.pre = "llama-bpe", .name = "llama3", .ignores_merges = true, .adds_bos = true},
     {.pre = "llama3", .name = "llama3", .ignores_merges = true, .adds_bos = true},
     {.pre = "llama-v3", .name = "llama3", .ignores_merges = true, .adds_bos = true},
     {.pre = "qwen2", .name = "qwen2", .is_normalized = true},
     {.pre = "deepseek-r1-qwen", .name = "qwen2", .is_normalized = true},
     {.pre = "gpt-4o", .name = "o200k", .ignores_merges = true},
     {.pre = "smollm", .name = "gpt2", .digits_are_apart = true}}};

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

/// The regular expressions by which texts are cut: of Splits, or ByteLevel's own.
std::vector<std::string> regexes_of(const JsonObject& tokenizer) {
  std::vector<std::string> regexes;
  for (const JsonObject& step : pre_tokenizers(tokenizer)) {
    const std::string type = step.text("type");
    if (type != "ByteLevel" && type != "Split")
      step.refuse("type", fmt::format("{} has no form in GGUF here", brief(Json(type))),
                  "Split and ByteLevel");
    if (type == "ByteLevel" && step.boolean_or("add_prefix_space", true))
      step.refuse("add_prefix_space", "true has no form in GGUF", "false");
    if (type == "Split")
      regexes.push_back(step.object("pattern").text("Regex"));
    else if (step.boolean_or("use_regex", true))
      regexes.emplace_back(known_pattern("gpt2"));
  }
  return regexes;
}

bool cuts_by(const LlamaCppPattern& pattern, std::vector<std::string> regexes) {
  const bool begins_with_digits = !regexes.empty() && regexes.front() == kDigitPattern;
  if (pattern.digits_are_apart != begins_with_digits) return false;
  if (begins_with_digits) regexes.erase(regexes.begin());
  return regexes.size() == 1 && regexes.front() == known_pattern(pattern.name);
}

void refuse_normalizer(const JsonObject& tokenizer, std::string_view pre) {
  for (const JsonObject& step : steps_of(tokenizer, "normalizer", "normalizers"))
    if (pre != "qwen2" || step.text("type") != "NFC")
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

const LlamaCppPattern& llama_cpp_pattern(const JsonObject& tokenizer) {
  const std::vector<std::string> regexes = regexes_of(tokenizer);
  const auto* found =
      std::find_if(kPatterns.begin(), kPatterns.end(),
                   [&](const LlamaCppPattern& each) { return cuts_by(each, regexes); });
  if (found == kPatterns.end())
    tokenizer.refuse(
        "pre_tokenizer",
        brief(regexes.size() == 1 ? Json(regexes.front()) : Json(regexes)) + " has no form in GGUF",
        "the pattern of GPT-2, Llama-3, Qwen2 or o200k");
  refuse_normalizer(tokenizer, found->pre);
  return *found;
}

const LlamaCppPattern* find_llama_cpp_pattern(std::string_view pre) {
  const auto* found = std::find_if(kPatterns.begin(), kPatterns.end(),
                                   [&](const LlamaCppPattern& each) { return each.pre == pre; });
  return found == kPatterns.end() ? nullptr : found;
}

bool is_normalized(const JsonObject& tokenizer) {
  const std::vector<JsonObject> steps = steps_of(tokenizer, "normalizer", "normalizers");
  return std::any_of(steps.begin(), steps.end(),
                     [](const JsonObject& step) { return step.text("type") == "NFC"; });
}

AddedAround added_around(const JsonObject& tokenizer) {
  AddedAround around;
  for (const JsonObject& step : steps_of(tokenizer, "post_processor", "processors")) {
    if (step.text("type") != "TemplateProcessing") continue;
    bool is_behind = false;
    for (const Json& part : step.at("single")) {
      const bool is_text = part.is_object() && part.contains("Sequence");
      if (is_text)
        is_behind = true;
      else
        (is_behind ? around.after : around.before) = true;
    }
  }
  return around;
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
