// Training a byte-level BPE: equal, id for id, to the BpeTrainer of Hugging Face's tokenizers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/threads.h"

namespace ng {

struct BpeTraining {
  int64_t vocab = 0;          ///< tokens, special ones and the 256 bytes included
  int64_t min_frequency = 0;  ///< of a pair to become a token
  std::string pattern;        ///< of known_pattern(): its name
  bool compose = false;       ///< normalize to NFC
  std::vector<std::string> special_tokens = {};
};

/// What has been learned: names by id, and merges of two ids each, the first learned first.
struct TrainedBpe {
  std::vector<std::string> names;
  std::vector<std::pair<int32_t, int32_t>> merges;
};

/// Each text is cut by itself; ill-formed bytes count as U+FFFD. The result does not depend on
/// `threads`. `show` is told how far it is, now and then. Throws Error for a vocabulary that is too
/// small for special tokens and bytes, and for a pattern without a name.
[[nodiscard]] TrainedBpe train_bpe(const std::vector<std::string_view>& texts,
                                   const BpeTraining& training, Threads threads,
                                   const std::function<void(int64_t done, int64_t total)>& show);

/// The tokenizer.json.
[[nodiscard]] std::string tokenizer_json_of(const TrainedBpe& trained, const BpeTraining& training);

}  // namespace ng
