// Pairs of a chosen and a rejected sequence, cut into a training and a validation part.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/corpus.h"
#include "data/masked_tokens.h"
#include "data/training_data.h"

namespace ng {

/// A batch's sequences 2i and 2i + 1 are the chosen and the rejected one of a pair. Each begins
/// with the prompt; a pair of which one is longer than a sequence of the model loses the beginning
/// of its prompt, both alike, as TRL's truncation_mode = "keep_end" does; what is shorter is padded
/// behind its end, with tokens and masks of 0. All tokens stay in memory: five bytes each.
class PreferencePairs final : public TrainingData {
 public:
  /// No pairs yet.
  explicit PreferencePairs(std::string place) : place_(std::move(place)) {}

  /// The pairs of the lines of `content`, behind those that are there. Throws Error at "path:line"
  /// for a line that read_preference() refuses, or whose completion has no token of its own.
  void add(std::string_view content, const std::string& path, const Tokenizer& tokenizer,
           const DocumentRules& rules);
  /// The first `train` pairs are to train on, the others to validate on.
  void cut(int64_t train) { train_ = train; }
  /// Spread over all, as spread_items() has it, `count` are to validate on, the others to train on.
  void cut_spread(int64_t count);

  [[nodiscard]] int64_t pairs() const { return std::ssize(pairs_); }

  [[nodiscard]] bool has_mask() const override { return true; }
  [[nodiscard]] bool has_validation() const override { return train_ < pairs(); }
  [[nodiscard]] std::string size_text() const override;
  [[nodiscard]] std::string checksum() const override;
  [[nodiscard]] Json counts(DataPart part) const override;
  [[nodiscard]] int64_t epoch_items() const override { return train_; }
  [[nodiscard]] std::vector<int32_t> some_tokens(DataPart part) const override;
  /// Throws Error where there is nothing to train on, or a completion leaves no room for a token of
  /// its prompt.
  void require_length(int64_t context) const override;
  /// Says how many prompts lose their beginning.
  [[nodiscard]] std::vector<std::string> warnings(int64_t context) const override;
  /// Pairs are drawn uniformly, with the number of the chosen sequence halved.
  void train_batch(uint64_t seed, uint32_t step, SequenceRange range,
                   BatchSpans out) const override;
  [[nodiscard]] int64_t validation_windows(int64_t context) const override;
  int64_t validation_batch(SequenceRange range, BatchSpans out) const override;
  [[nodiscard]] int64_t validation_bytes() const override { return 0; }
  /// The prompt of the first pair to train on.
  [[nodiscard]] std::vector<int32_t> sample_prompt(uint64_t seed, int64_t context) const override;

 private:
  /// Tokens [first, first + count), of which the first `prompt` are no targets.
  struct Sequence {
    int64_t first = 0, count = 0, prompt = 0;
  };
  struct Pair {
    Sequence chosen, rejected;
    std::string place;  ///< "path:line"
  };
  [[nodiscard]] Sequence take(const Document& document, const Tokenizer& tokenizer, const char* key,
                              const std::string& place);
  /// Tokens that a pair's prompts lose.
  [[nodiscard]] static int64_t excess(const Pair& pair, int64_t context);
  /// One sequence of a pair, where `out` is one of a batch.
  void put(const Pair& pair, bool chosen, const BatchSpans& out) const;

  std::string place_;
  MaskedTokens tokens_;
  std::vector<Pair> pairs_;
  int64_t train_ = 0;
};

/// Opens the pairs of a run file's [data]. Throws Error for what is missing, unreadable or empty.
[[nodiscard]] PreferencePairs open_pairs(const DataConfig& config, const Tokenizer& tokenizer);

}  // namespace ng
