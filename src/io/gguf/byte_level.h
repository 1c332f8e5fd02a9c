// What a tokenizer.json says of itself, in the terms that llama.cpp has. [interop.md 1.3, 3]
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace ng {

/// What sentencepiece writes for a space: U+2581.
inline constexpr std::string_view kVisibleSpace = "\xE2\x96\x81";

/// Whether texts become byte names before the model sees them.
[[nodiscard]] bool is_byte_level(const JsonObject& tokenizer);

/// Whether a BPE model has a token for each byte, its id the byte, and no merge; 255 may be named
/// as the end of a text.
[[nodiscard]] bool is_bytes(const JsonObject& model);

/// How llama.cpp cuts texts by a name, which the file has as tokenizer.ggml.pre.
struct LlamaCppPattern {
  std::string_view pre;  ///< the name
  /// Of known_pattern(): by which texts are cut, one after another; empty ones at the end.
  std::array<std::string_view, 6> patterns;
  bool ignores_merges = false;  ///< pieces that are tokens are taken whole
  bool adds_bos = false;        ///< where the file does not say
  bool is_normalized = false;  ///< tokenizers with it compose their texts (NFC), llama.cpp does not
  bool cleans_spaces = false;  ///< where llama.cpp writes a text: none before punctuation
};
/// What a file without tokenizer.ggml.pre is read by.
inline constexpr std::string_view kPreWithoutName = "default";
/// The key of a tokenizer_config.json that has the name which the GGUF file had, where llama.cpp
/// has others for the same pattern.
inline constexpr const char* kPreKey = "gguf_pre";

/// That by which a byte-level tokenizer cuts; of several names the one that tokenizer_config.json
/// has under kPreKey, or whose other properties it has. Throws Error naming the pattern where it
/// is none of those.
[[nodiscard]] const LlamaCppPattern& llama_cpp_pattern(const JsonObject& tokenizer,
                                                       const JsonObject& config);
/// By name; null where this program has no such pattern.
[[nodiscard]] const LlamaCppPattern* find_llama_cpp_pattern(std::string_view pre);
/// Whether its name is that which a tokenizer.json with its pattern alone tells.
[[nodiscard]] bool is_first_of_its_kind(const LlamaCppPattern& pattern);
/// "gpt-2, llama-bpe, ..."
[[nodiscard]] std::string llama_cpp_names();
/// Its regular expressions.
[[nodiscard]] std::vector<std::string_view> regexes_of(const LlamaCppPattern& pattern);

/// Whether texts are composed (NFC) before they are cut.
[[nodiscard]] bool is_normalized(const JsonObject& tokenizer);

/// A BPE over characters or a Unigram, spaces as U+2581.
struct SentencepieceForm {
  bool adds_space = false;
  bool adds_always = false;  ///< before what begins with a space, and behind special tokens, too
  bool byte_fallback = false;
};
/// Throws Error where it is none.
[[nodiscard]] SentencepieceForm sentencepiece_form(const JsonObject& tokenizer);

/// "<0x0A>"
[[nodiscard]] bool is_byte_piece(std::string_view token);

}  // namespace ng
