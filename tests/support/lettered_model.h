// The golden Llama with a tokenizer whose token i is the letter U+4E00 + i: texts are the tokens of
// its golden file, whose logits and greedy tokens are transformers'.
#pragma once

#include <span>
#include <string>

#include "base/files.h"
#include "base/json.h"
#include "base/utf8.h"
#include "support/golden_file.h"

namespace ng {

inline constexpr const char* kLetteredModel = "models/llama_tiny/";
inline constexpr int64_t kLetters = 128;

inline std::string letter(int64_t id) { return utf8_of(char32_t(0x4E00 + id)); }

inline std::string letters(std::span<const int64_t> ids) {
  std::string text;
  for (const int64_t id : ids) text += letter(id);
  return text;
}

/// A tokenizer.json; tokens `special` are special, and so no letters of a text.
inline Json lettered_tokenizer(std::span<const int64_t> special = {}) {
  Json vocab = Json::object(), added = Json::array();
  for (int64_t id = 0; id < kLetters; ++id) vocab[letter(id)] = id;
  for (const int64_t id : special)
    added.push_back({{"id", id}, {"content", letter(id)}, {"special", true}});
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "Metaspace"}, {"prepend_scheme", "never"}, {"split", false}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "Sequence"}, {"decoders", {{{"type", "Fuse"}}}}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", letter(kLetters - 1)},
            {"vocab", vocab},
            {"merges", Json::array()}}}};
}

/// What puts a token before each text.
inline Json template_of(int64_t begin) {
  const Json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const Json token = {{"SpecialToken", {{"id", "<begin>"}, {"type_id", 0}}}};
  const Json named = {{"id", "<begin>"}, {"ids", {begin}}, {"tokens", {letter(begin)}}};
  return {{"type", "TemplateProcessing"},
          {"single", {token, text}},
          {"pair", {token, text}},
          {"special_tokens", {{"<begin>", named}}}};
}

/// Writes the folder, with this tokenizer.json and tokenizer_config.json.
inline void write_lettered_model(const std::string& folder, const Json& tokenizer,
                                 const Json& config) {
  constexpr size_t kMost = 1 << 22;
  make_folders(folder);
  for (const char* file : {"config.json", "model.safetensors"}) {
    const std::string golden = std::string(NG_SOURCE_DIR "/tests/golden/") + kLetteredModel + file;
    write_file_atomically(join_path(folder, file), read_file(golden, kMost));
  }
  write_file_atomically(join_path(folder, "tokenizer.json"), json_text(tokenizer));
  write_file_atomically(join_path(folder, "tokenizer_config.json"), json_text(config));
}

}  // namespace ng
