// What a tokenizer.json says of itself, in the terms that llama.cpp has. [interop.md 1.3, 3]
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace ng {

/// What sentencepiece writes for a space: U+2581.
inline constexpr std::string_view kVisibleSpace = "\xE2\x96\x81";

/// Whether texts become byte names before the model sees them.
[[nodiscard]] bool is_byte_level(const JsonObject& tokenizer);

/// Whether a BPE model has a token for each byte, its id the byte, and no merge; 255 may be named
/// as the end of a text.
[[nodiscard]] bool is_bytes(const JsonObject& model);

/// How llama.cpp cuts texts for a pattern.
struct LlamaCppPattern {
  std::string_view pre;           ///< its name there
  std::string_view name;          ///< of known_pattern()
  bool digits_are_apart = false;  ///< each is cut off before that
  bool ignores_merges = false;    ///< pieces that are tokens are taken whole
  bool adds_bos = false;          ///< where the file does not say
  bool is_normalized = false;  ///< tokenizers with it compose their texts (NFC), llama.cpp does not
};
/// That by which a byte-level tokenizer cuts. Throws Error naming the pattern where it is none of
/// those.
[[nodiscard]] const LlamaCppPattern& llama_cpp_pattern(const JsonObject& tokenizer);
/// By name; null where this program has no such pattern.
[[nodiscard]] const LlamaCppPattern* find_llama_cpp_pattern(std::string_view pre);

/// Whether texts are composed (NFC) before they are cut.
[[nodiscard]] bool is_normalized(const JsonObject& tokenizer);

/// Which special tokens the post-processor puts around a text.
struct AddedAround {
  bool before = false;
  bool after = false;
};
[[nodiscard]] AddedAround added_around(const JsonObject& tokenizer);

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
