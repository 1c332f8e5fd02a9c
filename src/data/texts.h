// The files of a text, each in its own form, as tokens.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/jsonl.h"
#include "data/token_source.h"
#include "tokenizer/tokenizer.h"

namespace ng {

/// These files, one after the other: those whose names end in ".jsonl" as documents,
/// the others as plain texts, every token a target. Throws Error for what cannot be
/// read, and for lines that are no documents.
[[nodiscard]] std::unique_ptr<TokenSource> open_texts(const std::vector<std::string>& paths,
                                                      const Tokenizer& tokenizer,
                                                      const DocumentRules& rules);

}  // namespace ng
