#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/split_pattern.h"

#include <pcre2.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/known_patterns.h"
#include "tokenizer/unicode_categories.h"

namespace ng {
namespace {

/// By category, characters of two, three and four bytes; empty where the category has none.
constexpr std::array<std::array<std::string_view, 3>, 14> kOldCharacters = {{
    {"\u00C0", "\u1E00", "\U00010400"},  // uppercase
    {"\u00E0", "\u1E01", "\U00010428"},  // lowercase
    {"\u01C5", "\u1F88", ""},            // titlecase
    {"\u02B0", "\u1D2C", "\U00016B40"},  // modifier letter
    {"\u00AA", "\u4E00", "\U00020000"},  // other letter
    {"\u0300", "\u0903", "\U0001D165"},  // mark
    {"\u00B2", "\u0966", "\U000104A0"},  // decimal, letter and other number
    {"\u00B2", "\u0966", "\U000104A0"},
    {"\u00B2", "\u0966", "\U000104A0"},
    {"\u00A1", "\u2010", "\U00010100"},  // connector and other punctuation
    {"\u00A1", "\u2010", "\U00010100"},
    {"\u00A9", "\u20AC", "\U0001F600"},  // symbol
    {"\u00A0", "\u2003", ""},            // space
    {"\u00AD", "\u200B", "\U000E0001"},  // other
}};

bool stays(char32_t character) {
  return character == 0x85 || character == 0x17F || character == 0x212A;
}

// What may stand behind a backslash: with_old_characters() keeps what these ask for.
bool is_kept_class(std::string_view name) {
  for (std::string_view known : {"L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "N", "P", "S", "Z"})
    if (name == known) return true;
  return false;
}

/// Why a pattern cannot be used, or nothing.
std::string objection_to(std::string_view pattern) {
  if (pattern.find("[:") != std::string_view::npos) return "a class [: :]";
  for (size_t at = pattern.find('\\'); at != std::string_view::npos;
       at = pattern.find('\\', at + 2)) {
    const std::string_view rest = pattern.substr(at);
    const char kind = rest.size() > 1 ? rest[1] : '\0';
    const bool is_letter = (kind >= 'a' && kind <= 'z') || (kind >= 'A' && kind <= 'Z') ||
                           (kind >= '0' && kind <= '9');
    if (!is_letter || std::string_view("sSrntxu").find(kind) != std::string_view::npos) continue;
    const size_t end = rest.find('}');
    const bool is_class = (kind == 'p' || kind == 'P') && rest.substr(2).starts_with('{') &&
                          end != std::string_view::npos;
    if (!is_class) return fmt::format("\\{}", kind);
    std::string_view name = rest.substr(3, end - 3);
    if (name.starts_with('^')) name.remove_prefix(1);
    if (!is_kept_class(name)) return std::string(rest.substr(0, end + 1));
  }
  return "";
}

[[noreturn]] void refuse(const std::string& place, const std::string& key,
                         const std::string& problem) {
  throw Error({.place = place,
               .key = key,
               .problem = problem,
               .remedy = "a pattern of characters, \\s \\S \\r \\n \\t and \\p{...} of L Lu Ll Lt "
                         "Lm Lo M N P S Z that matches no empty piece"});
}

}  // namespace

std::string_view with_old_characters(std::string_view text, std::string& buffer) {
  size_t at = ascii_prefix(text);
  if (at == text.size()) return text;
  buffer.assign(text);
  while (at < text.size()) {
    const size_t bytes = character_bytes(text[at]);
    if (bytes > 1) {
      const char32_t character = code_point(text.substr(at, bytes));
      const auto category = static_cast<size_t>(category_of(character));
      const std::string_view old = kOldCharacters[category][bytes - 2];
      if (!stays(character)) old.copy(&buffer[at], bytes);
    }
    at += bytes;
  }
  return buffer;
}

void SplitPattern::Free::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }

void SplitScratch::Free::operator()(pcre2_real_match_data_8* match) const {
  pcre2_match_data_free(match);
}

SplitScratch::SplitScratch() : match_(pcre2_match_data_create(1, nullptr)) {}

SplitPattern::SplitPattern(const std::string& pattern, const std::string& place,
                           const std::string& key)
    : text_(canonical_pattern(pattern)) {
  std::string regex = pattern, objection = objection_to(pattern);
  if (objection.empty() && needs_classes(pattern)) {
    const ClassedPattern classed(pattern);
    objection = classed.objection();
    regex = classed.regex();
    classes_ = std::make_unique<const CharacterClasses>(classed.classes());
  }
  if (!objection.empty())
    refuse(place, key, fmt::format("a pattern with {} is not supported", objection));
  int failure = 0;
  size_t at = 0;
  // Lines have a ^ and $ of their own, as in Oniguruma's syntax, which tokenizers uses.
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(regex.data()), regex.size(),
                            PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &failure, &at, nullptr));
  if (!code_) {
    std::array<PCRE2_UCHAR, 256> words{};
    pcre2_get_error_message(failure, words.data(), words.size());
    const std::string where = classes_ ? "" : fmt::format(" at its character {}", at);
    refuse(place, key, fmt::format("{}{}", reinterpret_cast<const char*>(words.data()), where));
  }
  uint32_t can_be_empty = 0;
  pcre2_pattern_info(code_.get(), PCRE2_INFO_MATCHEMPTY, &can_be_empty);
  if (can_be_empty != 0) refuse(place, key, "a pattern that matches empty pieces");
  pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // where it fails, pcre2_match does without
}

void Pieces::find_match() {
  const int found =
      pcre2_match(pattern_->code_.get(), reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(),
                  done_, PCRE2_NO_UTF_CHECK, scratch_->match_.get(), nullptr);
  if (found == PCRE2_ERROR_NOMATCH) {
    match_ = {text_.size(), text_.size()};
  } else if (found < 0) {
    throw Error({.key = "pattern of the tokenizer",
                 .problem = fmt::format("takes too long for this text, or too much memory: {}",
                                        pattern_->text_),
                 .remedy = "a pattern without nested repetitions"});
  } else {
    const size_t* ends = pcre2_get_ovector_pointer(scratch_->match_.get());
    match_ = {ends[0], ends[1]};
  }
}

bool Pieces::next(Piece& piece) {
  if (done_ == text_.size()) return false;
  if (match_.end <= done_) find_match();
  piece = {done_, match_.begin > done_ ? match_.begin : match_.end};
  done_ = piece.end;
  return true;
}

}  // namespace ng
