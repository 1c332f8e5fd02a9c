// A tokenizer made of files of text.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tokenizer/bpe_trainer.h"
#include "tokenizer/tokenizer.h"

namespace ng {

/// Tokens that a vocabulary may be asked to have.
inline constexpr int64_t kMaxTrainedVocab = 1 << 24;

/// Throws Error where `out` is one of the texts, or no tokenizer may come to be there.
void require_tokenizer_target(const std::string& out, const std::vector<std::string>& texts);

/// train_bpe of files, each one text. Throws Error for those that cannot be read, too.
[[nodiscard]] TrainedBpe train_bpe_of_files(
    const std::vector<std::string>& paths, const BpeTraining& training, Threads threads,
    const std::function<void(int64_t done, int64_t total)>& show);

/// What open_tokenizer makes of a tokenizer.json of this text that lies alone in a folder.
[[nodiscard]] std::unique_ptr<Tokenizer> tokenizer_of_json(std::string json);

}  // namespace ng
