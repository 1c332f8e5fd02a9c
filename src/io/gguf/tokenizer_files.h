// The tokenizer of a GGUF file as the files of a folder. [interop.md 1.3, 3]
#pragma once

#include "io/gguf/gguf.h"
#include "tokenizer/subword_tokenizer.h"

namespace ng {

/// A tokenizer.json and a tokenizer_config.json by which texts become the ids that llama.cpp gives
/// them: byte-level BPE by its pattern, sentencepiece BPE by its scores, Unigram. Qwen2's pattern
/// is read with the normalizer (NFC) that its folders have. Throws Error naming the key that is
/// missing, malformed or not supported.
[[nodiscard]] TokenizerFiles gguf_tokenizer_files(const io::Gguf& file);

}  // namespace ng
