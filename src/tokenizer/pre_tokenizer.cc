#include "tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "tokenizer/known_patterns.h"

namespace ng {
namespace {

[[noreturn]] void refuse_type(const JsonObject& step, std::string_view known) {
  step.refuse("type", fmt::format("{} is not supported", brief(step.at("type"))),
              std::string(known));
}

/// The steps of a Sequence under `key`, each with its place in the file.
std::vector<JsonObject> steps_of(const JsonObject& sequence, const std::string& prefix,
                                 std::string_view key) {
  const Json& list = sequence.at(key);
  if (!list.is_array()) sequence.refuse(key, brief(list), "a list");
  std::vector<JsonObject> steps;
  for (size_t i = 0; i < list.size(); ++i)
    steps.emplace_back(list[i], sequence.place(), fmt::format("{}.{}[{}].", prefix, key, i));
  return steps;
}

std::optional<UnicodeForm> form_named(std::string_view type) {
  if (type == "NFC") return UnicodeForm::nfc;
  if (type == "NFD") return UnicodeForm::nfd;
  if (type == "NFKC") return UnicodeForm::nfkc;
  if (type == "NFKD") return UnicodeForm::nfkd;
  return {};
}

/// A pattern that is plain text.
std::string plain_pattern(const JsonObject& step) {
  const JsonObject pattern = step.object("pattern");
  if (!pattern.has("String") || pattern.text("String").empty())
    step.refuse("pattern", fmt::format("{} is not supported", brief(pattern.value())),
                R"({"String": TEXT})");
  return pattern.text("String");
}

}  // namespace

Normalizer::Normalizer(const JsonObject& file) {
  if (!file.has("normalizer")) return;
  const JsonObject normalizer = file.object("normalizer");
  if (normalizer.text("type") != "Sequence") {
    read(normalizer);
    return;
  }
  for (const JsonObject& step : steps_of(normalizer, "normalizer", "normalizers")) read(step);
}

void Normalizer::read(const JsonObject& step) {
  const std::string type = step.text("type");
  if (const std::optional<UnicodeForm> form = form_named(type))
    steps_.push_back({Step::Kind::normalize, "", "", *form});
  else if (type == "Prepend")
    steps_.push_back({Step::Kind::prepend, "", step.text("prepend")});
  else if (type == "Replace")
    steps_.push_back({Step::Kind::replace, plain_pattern(step), step.text("content")});
  else
    refuse_type(step, "NFC, NFD, NFKC, NFKD, Prepend, Replace, or a Sequence of them");
}

void Normalizer::apply(RewrittenText& text) const {
  for (const Step& step : steps_) {
    switch (step.kind) {
      case Step::Kind::normalize:
        text.normalize(step.form);
        break;
      case Step::Kind::prepend:
        text.prepend(step.to);
        break;
      case Step::Kind::replace:
        text.replace(step.from, step.to);
        break;
    }
  }
}

bool Normalizer::keeps_words_apart() const {
  return std::all_of(steps_.begin(), steps_.end(),
                     [](const Step& step) { return step.kind == Step::Kind::normalize; });
}

PreTokenizer::PreTokenizer(const JsonObject& file) {
  if (!file.has("pre_tokenizer")) return;
  const JsonObject whole = file.object("pre_tokenizer");
  std::vector<JsonObject> steps = {whole};
  if (whole.text("type") == "Sequence") steps = steps_of(whole, "pre_tokenizer", "pretokenizers");
  if (steps.size() == 1 && steps[0].text("type") == "Metaspace") {
    read_metaspace(steps[0]);
    return;
  }
  for (const JsonObject& step : steps) read(step, steps.size() == 1);
  if (!is_of_bytes_)
    whole.refuse("type", "no ByteLevel at its end", "ByteLevel behind the last Split");
}

void PreTokenizer::read(const JsonObject& step, bool is_only) {
  const std::string type = step.text("type");
  if (is_of_bytes_) step.refuse("type", fmt::format("\"{}\" behind ByteLevel", type), "nothing");
  if (type == "ByteLevel") {
    is_of_bytes_ = true;
    if (step.boolean_or("add_prefix_space", true)) {
      if (!is_only) step.refuse("add_prefix_space", "true behind other steps", "false");
      prefix_ = Prefix::always;
    }
    if (step.boolean_or("use_regex", true))
      patterns_.emplace_back(std::string(known_pattern("gpt2")), step.place(), "ByteLevel");
  } else if (type == "Split") {
    const JsonObject pattern = step.object("pattern");
    if (!pattern.has("Regex"))
      step.refuse("pattern", fmt::format("{} is not supported", brief(pattern.value())),
                  R"({"Regex": PATTERN})");
    if (step.text("behavior") != "Isolated")
      step.refuse("behavior", fmt::format("{} is not supported", brief(step.at("behavior"))),
                  "Isolated");
    if (step.boolean_or("invert", false)) step.refuse("invert", "true is not supported", "false");
    patterns_.emplace_back(pattern.text("Regex"), step.place(), "pre_tokenizer: Split");
  } else if (type == "Digits") {
    const bool are_apart = step.boolean_or("individual_digits", false);
    patterns_.emplace_back(std::string(known_pattern(are_apart ? "numeric" : "numerics")),
                           step.place(), "pre_tokenizer: Digits");
  } else {
    refuse_type(step, "ByteLevel, Split and Digits in front of it, or Metaspace alone");
  }
}

void PreTokenizer::read_metaspace(const JsonObject& step) {
  const std::string scheme = step.text_or("prepend_scheme", "always");
  if (step.boolean_or("split", true))
    step.refuse("split", "true (which it is where missing) is not supported", "false");
  if (scheme == "never" || !step.boolean_or("add_prefix_space", true))
    prefix_ = Prefix::never;
  else if (scheme == "first")
    prefix_ = Prefix::first;
  else if (scheme == "always")
    prefix_ = Prefix::always;
  else
    step.refuse("prepend_scheme", brief(step.at("prepend_scheme")), "first, always or never");
  space_ = step.text_or("replacement", "\u2581");
  if (space_.empty()) step.refuse("replacement", "empty", "a character");
}

bool PreTokenizer::keeps_words_apart() const {
  // What comes before the first pattern that cuts there must not care; what comes behind it sees
  // the same pieces wherever the text was cut.
  const auto first =
      std::find_if(patterns_.begin(), patterns_.end(), [](const SplitPattern& pattern) {
        return word_ends_of(pattern.text()) != WordEnds::untouched;
      });
  return prefix_ == Prefix::never && space_ == " " && first != patterns_.end() &&
         word_ends_of(first->text()) == WordEnds::cut;
}

void PreTokenizer::rewrite(RewrittenText& text, bool is_first) const {
  if (space_ != " ") text.replace(" ", space_);
  const bool has_prefix = prefix_ == Prefix::always || (prefix_ == Prefix::first && is_first);
  if (has_prefix && !text.text().starts_with(space_)) text.prepend(space_);
}

}  // namespace ng
