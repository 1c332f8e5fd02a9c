#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/name_pattern.h"

#include <pcre2.h>

#include <array>
#include <utility>

#include "base/error.h"

namespace ng {
namespace {

/// Steps back that one match may take: names have some hundred characters, and files are not to be
/// trusted.
constexpr uint32_t kMostBacktracks = 100'000;

}  // namespace

void NamePattern::Free::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }

NamePattern::NamePattern(const std::string& pattern, std::string place, std::string key)
    : place_(std::move(place)), key_(std::move(key)) {
  int failure = 0;
  size_t at = 0;
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                            PCRE2_UTF | PCRE2_ANCHORED, &failure, &at, nullptr));
  if (code_) return;
  std::array<PCRE2_UCHAR, 256> words{};
  pcre2_get_error_message(failure, words.data(), words.size());
  throw Error({.place = place_,
               .key = key_,
               .problem = reinterpret_cast<const char*>(words.data()),
               .remedy = "a name, or a regular expression of names"});
}

bool NamePattern::matches(std::string_view name) const {
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
      pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
  const std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> limits(
      pcre2_match_context_create(nullptr), pcre2_match_context_free);
  pcre2_set_match_limit(limits.get(), kMostBacktracks);
  const int found = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(name.data()), name.size(),
                                0, 0, match.get(), limits.get());
  if (found == PCRE2_ERROR_NOMATCH) return false;
  if (found >= 0) return true;
  throw Error({.place = place_,
               .key = key_,
               .problem = fmt::format("takes too long to match {}", name),
               .remedy = "a pattern without nested repetitions"});
}

}  // namespace ng
