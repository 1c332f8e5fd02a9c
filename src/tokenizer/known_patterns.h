// The regular expressions by which published models' tokenizers cut texts.
#pragma once

#include <string>
#include <string_view>

namespace ng {

/// By its name, a regular expression as tokenizer.json files have it; empty for other names.
/// [openai/gpt-2 encoder.py; meta-llama/llama3 tokenizer.py; Qwen2 tokenization_qwen2.py;
/// tiktoken_ext/openai_public.py; tokenizer.json of Qwen3.5 and of DeepSeek's LLM, Coder and V3;
/// llama.cpp src/llama-vocab.cpp for what it does without a name]
[[nodiscard]] std::string_view known_pattern(std::string_view name);
/// Those that cut a text alone: by which a tokenizer can be trained.
inline constexpr std::string_view kKnownPatterns[] = {"gpt2", "llama3", "qwen2", "o200k"};

/// A pattern as known_pattern() writes it: line ends and tabs as \r, \n and \t.
[[nodiscard]] std::string canonical_pattern(std::string_view pattern);

/// How a pattern treats the places between an ASCII letter and ASCII white space behind it,
/// whatever stands before and behind the two.
enum class WordEnds : uint8_t {
  unknown,
  untouched,  ///< it looks at no letter and no space, or at single line ends
  cut         ///< each match and what lies between matches ends there
};
/// Of one of the known, by its text.
[[nodiscard]] WordEnds word_ends_of(std::string_view pattern);

}  // namespace ng
