#include "tokenizer/known_patterns.h"

#include <algorithm>
#include <iterator>

namespace ng {
namespace {

struct KnownPattern {
  std::string_view name;
  std::string_view regex;
  WordEnds word_ends;
};

constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
    R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepSeekV3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Letters of alphabets with two cases, not all of them.
constexpr std::string_view kDeepSeekLetters =
    "\\s?[A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293"
    "\u0295-\u02AF\u0370-\u0373\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C"
    "\u038E-\u03A1\u03A3-\u03F5\u03F7-\u0481\u048A-\u052F\u0531-\u0556\u10A0-\u10C5\u13A0-\u13F5"
    "\u13F8-\u13FD\u1C90-\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77\u1D79-\u1D9A\u1E00-\u1F15"
    "\u1F18-\u1F1D\u1F20-\u1F45\u1F48-\u1F4D\u1F50-\u1F57\u1F59\u1F5B\u1F5D\u1F5F-\u1F7D"
    "\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB"
    "\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102\u2107\u210A-\u2113\u2115\u2119-\u211D\u2124"
    "\u2126\u2128\u212A-\u212D\u212F-\u2134\u2139\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184"
    "\u2C00-\u2C7B\u2C7E-\u2CE4\u2CEB-\u2CEE\u2CF2\u2CF3\uA640-\uA66D\uA680-\uA69B\uA722-\uA76F"
    "\uA771-\uA787\uA78B-\uA78E\uAB70-\uABBF\uFB00-\uFB06\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A"
    "\U00010400-\U0001044F\U000104B0-\U000104D3\U000104D8-\U000104FB\U00010C80-\U00010CB2"
    "\U00010CC0-\U00010CF2\U000118A0-\U000118DF\U0001E900-\U0001E943]+";

constexpr KnownPattern kPatternTable[] = {
    {"gpt2", R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
     WordEnds::cut},
    {"llama3", kLlama3, WordEnds::cut},
    {"qwen2", kQwen2, WordEnds::cut},
    {"o200k", kO200k, WordEnds::cut},
    {"qwen35", kQwen35, WordEnds::cut},
    {"digit", R"(\p{N})", WordEnds::untouched},
    {"digits", R"(\p{N}+)", WordEnds::untouched},
    {"3 digits", R"(\p{N}{1,3})", WordEnds::untouched},
    {"3 ASCII digits", R"([0-9][0-9][0-9])", WordEnds::untouched},
    // What Rust calls numeric, by Unicode 17: \p{N} and 13 more.
    {"numeric", R"([\p{N}\x{11DE0}-\x{11DE9}\x{16FF4}-\x{16FF6}])", WordEnds::untouched},
    {"numerics", R"([\p{N}\x{11DE0}-\x{11DE9}\x{16FF4}-\x{16FF6}]+)", WordEnds::untouched},
    {"line end", R"([\r\n])", WordEnds::untouched},
    {"deepseek letters", kDeepSeekLetters, WordEnds::cut},
    {"deepseek marks", "\\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+",
     WordEnds::unknown},
    {"last spaces", R"(\s+$)", WordEnds::unknown},
    {"deepseek CJK", "[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+", WordEnds::untouched},
    {"letters", R"(\s?\p{L}+)", WordEnds::cut},
    {"marks", R"(\s?\p{P}+)", WordEnds::unknown},
    {"deepseek-v3 CJK", "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+", WordEnds::untouched},
    {"deepseek-v3", kDeepSeekV3, WordEnds::cut},
    {"marks of llama.cpp", R"([\p{P}\$\+<=>\^~\|]+)", WordEnds::untouched},
};

}  // namespace

std::string_view known_pattern(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kPatternTable), std::end(kPatternTable),
                   [&](const KnownPattern& pattern) { return pattern.name == name; });
  return found == std::end(kPatternTable) ? std::string_view() : found->regex;
}

WordEnds word_ends_of(std::string_view pattern) {
  const auto* found =
      std::find_if(std::begin(kPatternTable), std::end(kPatternTable),
                   [&](const KnownPattern& known) { return known.regex == pattern; });
  return found == std::end(kPatternTable) ? WordEnds::unknown : found->word_ends;
}

std::string canonical_pattern(std::string_view pattern) {
  std::string canonical;
  for (const char c : pattern) {
    const size_t kind = std::string_view("\r\n\t").find(c);
    const bool is_escaped = canonical.ends_with('\\');
    if (kind == std::string_view::npos || is_escaped) {
      canonical += c;
    } else {
      canonical += '\\';
      canonical += "rnt"[kind];
    }
  }
  return canonical;
}

}  // namespace ng
