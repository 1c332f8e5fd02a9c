// The files of a text, each in its own form, as tokens.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/jsonl.h"
#include "data/read_progress.h"
#include "data/text_files.h"
#include "data/token_source.h"
#include "tokenizer/tokenizer.h"

namespace ng {

/// How files become tokens, as the user says it.
struct TextRules {
  DocumentRules documents = {};  ///< of files whose names end in ".jsonl"
  bool bare_uint16 = false;  ///< all others are token files, of ids alone where they say nothing
};

/// What folders and patterns leave out of them.
[[nodiscard]] BinaryMeans binary_for(const Tokenizer& tokenizer, const TextRules& rules);

/// These files, one after the other: those whose names end in ".jsonl" as documents, those that
/// begin as files of token ids do as such, the others as plain texts, every token a target. Throws
/// Error for what cannot be read and for lines that are no documents.
[[nodiscard]] std::unique_ptr<TokenSource> open_texts(const std::vector<std::string>& paths,
                                                      const Tokenizer& tokenizer,
                                                      const TextRules& rules,
                                                      const ReadProgress& progress = {});

}  // namespace ng
