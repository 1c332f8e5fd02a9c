// What a run file names, opened: its text and the sizes of its model.
#pragma once

#include "data/corpus.h"
#include "data/tokenizer.h"
#include "train/run_config.h"

namespace ng {

/// The texts of [data]. Throws Error for what is missing, unreadable or empty.
[[nodiscard]] Corpus open_run_corpus(const RunConfig& config, const Tokenizer& tokenizer);

/// Throws Error, naming the texts, where a part of the corpus is too short for this context.
void require_run_length(const Corpus& corpus, const RunConfig& config, int64_t context);

/// The model of [model], from its `init` folder where one is named. Throws Error where the
/// tokenizer could name a token that it lacks.
[[nodiscard]] ModelConfig run_model_config(const RunConfig& config, const Tokenizer& tokenizer);

}  // namespace ng
