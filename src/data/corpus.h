// The text that a run learns from, cut into a training and a validation part. What a step sees is a
// function of (seed, step) alone: there is no position to save.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/jsonl.h"
#include "data/token_source.h"
#include "data/tokenizer.h"

namespace ng {

/// `[data]` of a run file.
struct DataConfig {
  std::string place;               ///< the run file, for error messages
  std::vector<std::string> train;  ///< as find_texts takes them
  double validation_share = 0.05;  ///< the last part of the text, in [0, 1); 0: no validation
  /// Texts of their own; then the share is ignored.
  std::vector<std::string> validation = {};
  DocumentRules documents = {};  ///< of files whose names end in ".jsonl"
};

/// Where a batch goes: each (sequences · context), sequence after sequence.
struct BatchSpans {
  std::span<int32_t> inputs;
  std::span<int32_t> targets;  ///< the token after each input
  std::span<float> mask;       ///< 1: the target counts; 0: it does not, or is padding
};

/// Sequences [first, first + count) of `context` inputs each.
struct SequenceRange {
  int64_t first = 0;
  int64_t count = 0;
  int64_t context = 0;
};

/// Tokens [first, first + count) of a source.
struct TokenRange {
  std::shared_ptr<const TokenSource> source;
  int64_t first = 0;
  int64_t count = 0;
};

class Corpus {
 public:
  Corpus(std::string place, TokenRange train, TokenRange validation);

  [[nodiscard]] int64_t train_tokens() const { return train_.count; }
  [[nodiscard]] int64_t validation_tokens() const { return validation_.count; }
  /// Tokens to train on that are targets; all but the first where there is no mask.
  [[nodiscard]] int64_t train_targets() const;
  /// Whether some token to train on is no target.
  [[nodiscard]] bool has_mask() const { return train_.source->has_mask(); }
  /// Bytes of text behind the validation targets that count: bits per byte = loss sum / ln 2 /
  /// this.
  [[nodiscard]] int64_t validation_bytes() const;
  /// Changes when a token, its mask or the cut does.
  [[nodiscard]] std::string checksum() const;

  /// Throws Error with the numbers where a part is too short for sequences of this length: training
  /// needs context + 1 tokens, validation (where there is one) two, and both a target that counts.
  void require_length(int64_t context) const;

  /// Sequences of one step, numbered through all its micro-batches. Each begins at a place drawn
  /// uniformly: floor(r · places / 2^64) with r the first 64 bits of draw group = sequence number
  /// of purpose 14, tensor 0. The mask of a target is that of its token.
  void train_batch(uint64_t seed, uint32_t step, SequenceRange range, BatchSpans out) const;

  /// Windows that cover every target of the validation part once: window w takes inputs from
  /// w · context on.
  [[nodiscard]] int64_t validation_windows(int64_t context) const;
  /// Windows of the range; behind the last target, tokens are 0 and the mask is 0. Returns how many
  /// targets count.
  int64_t validation_batch(SequenceRange range, BatchSpans out) const;

 private:
  void require_targets(const TokenRange& range, const char* key) const;

  std::string place_;
  TokenRange train_;
  TokenRange validation_;
};

/// Opens the texts. Throws Error for what is missing, unreadable or empty.
[[nodiscard]] Corpus open_corpus(const DataConfig& config, const Tokenizer& tokenizer);

}  // namespace ng
