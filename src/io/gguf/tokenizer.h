// The tokenizer of a model as the keys by which llama.cpp knows it. [interop.md 1.3]
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "io/gguf/gguf.h"
#include "io/model_settings.h"
#include "tokenizer/tokenizer.h"

namespace ng {

/// A tokenizer as keys, and in what readers of them differ from it, a sentence for each.
struct GgufTokenizer {
  io::GgufKeys keys;
  std::vector<std::string> notes{};
};

/// Of a tokenizer.json and its tokenizer_settings() (an empty object where there are none): bytes,
/// byte-level BPE by its pattern, sentencepiece BPE, Unigram. `vocab`: of the model; ids without a
/// token are "[PADi]". `settings`: the model's, of which special tokens are that the tokenizer does
/// not name, and what else ends a text. Throws Error naming what llama.cpp has nothing for.
[[nodiscard]] GgufTokenizer gguf_tokenizer(const Json& tokenizer, const Json& config,
                                           const std::string& place, int64_t vocab,
                                           const io::ModelSettings& settings = {});

/// The same of a model as io/model_files.h takes it: "none" where it has no tokenizer. Of a GGUF
/// file its own keys.
[[nodiscard]] GgufTokenizer gguf_tokenizer(const io::ModelName& model, int64_t vocab);

/// Whether a file has a tokenizer.
[[nodiscard]] bool has_tokenizer(const io::Gguf& file);

/// A sentence where a file does not say how its tokenizer cuts texts, and that does cut them.
[[nodiscard]] std::optional<std::string> note_of_pattern(const io::Gguf& file);

/// The tokenizer of a file. Throws Error naming the key that is missing or not supported.
[[nodiscard]] std::unique_ptr<Tokenizer> open_gguf_tokenizer(const io::Gguf& file);

}  // namespace ng
