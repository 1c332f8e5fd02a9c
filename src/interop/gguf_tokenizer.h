// The tokenizer of a model as the keys by which llama.cpp knows it. [interop.md 1.3]
#pragma once

#include <memory>
#include <string>

#include "base/json.h"
#include "io/gguf.h"
#include "tokenizer/tokenizer.h"

namespace ng {

/// Keys of a tokenizer.json and the tokenizer_config.json beside it (an empty object where there is
/// none): bytes, byte-level BPE by its pattern, or sentencepiece BPE. `vocab`: of the model; ids
/// without a token are "[PADi]". Throws Error naming what llama.cpp has nothing for.
[[nodiscard]] io::GgufKeys tokenizer_keys(const Json& tokenizer, const Json& config,
                                          const std::string& place, int64_t vocab);

/// The same of a model folder: "none" where it has no tokenizer. Of a GGUF file its own keys.
[[nodiscard]] io::GgufKeys tokenizer_keys(const std::string& model, int64_t vocab);

/// Whether the keys are those of the byte tokenizer with its end token.
[[nodiscard]] bool is_byte_tokenizer(const io::Gguf& file);

/// The tokenizer of a file. Throws Error where it is another than that of bytes.
[[nodiscard]] std::unique_ptr<Tokenizer> open_gguf_tokenizer(const io::Gguf& file);

}  // namespace ng
