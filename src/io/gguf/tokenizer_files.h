// The tokenizer of a GGUF file as the files of a folder. [interop.md 1.3, 3]
#pragma once

#include "io/gguf/gguf.h"
#include "tokenizer/tokenizer_folder.h"

namespace ng {

/// A tokenizer.json and a tokenizer_config.json by which texts become the ids that llama.cpp gives
/// them: byte-level BPE by its pattern, which is llama.cpp's default where the file names none,
/// sentencepiece BPE by its scores, Unigram. Patterns of Qwen and Command R are read with the
/// normalizer (NFC) that their folders have. Throws Error naming the key that is
/// missing, malformed or not supported.
[[nodiscard]] TokenizerFiles gguf_tokenizer_files(const io::Gguf& file);

/// Its chat templates: tokenizer.chat_template, the default, and tokenizer.chat_template.NAME.
[[nodiscard]] NamedTemplates gguf_chat_templates(const io::Gguf& file);

}  // namespace ng
