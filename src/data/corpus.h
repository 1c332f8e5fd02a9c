// The text that a run learns from, cut into a training and a validation part.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/texts.h"
#include "data/token_source.h"
#include "data/training_data.h"
#include "tokenizer/tokenizer.h"

namespace ng {

/// `[data]` of a run file.
struct DataConfig {
  std::string place;               ///< the run file, for error messages
  std::vector<std::string> train;  ///< as find_texts takes them
  double validation_share = 0.05;  ///< the last part of the text, in [0, 1); 0: no validation
  /// Texts of their own; then the share is ignored.
  std::vector<std::string> validation = {};
  int64_t validation_tokens = 0;  ///< no more than the first of them; 0: all
  TextRules rules = {};
};

/// Tokens [first, first + count) of a source.
struct TokenRange {
  std::shared_ptr<const TokenSource> source;
  int64_t first = 0;
  int64_t count = 0;
};

class Corpus final : public TrainingData {
 public:
  Corpus(std::string place, TokenRange train, TokenRange validation);

  [[nodiscard]] int64_t train_tokens() const { return train_.count; }
  [[nodiscard]] int64_t validation_tokens() const { return validation_.count; }
  /// Tokens to train on that are targets; all but the first where there is no mask.
  [[nodiscard]] int64_t train_targets() const;
  [[nodiscard]] bool has_mask() const override { return train_.source->has_mask(); }
  [[nodiscard]] bool has_validation() const override { return validation_.count > 0; }
  [[nodiscard]] std::string size_text() const override;
  /// Bits per byte = loss sum / ln 2 / this.
  [[nodiscard]] int64_t validation_bytes() const override;
  [[nodiscard]] std::string checksum() const override;
  [[nodiscard]] std::string older_checksum() const override;

  /// Throws Error with the numbers where a part is too short for sequences of this length: training
  /// needs context + 1 tokens, validation (where there is one) two, and both a target that counts.
  void require_length(int64_t context) const override;

  /// Each sequence begins at a place of the training part that is drawn uniformly.
  void train_batch(uint64_t seed, uint32_t step, SequenceRange range,
                   BatchSpans out) const override;

  /// Windows that cover every target of the validation part once: window w takes inputs from
  /// w · context on.
  [[nodiscard]] int64_t validation_windows(int64_t context) const override;
  /// From now on the last window, where it has fewer targets than others, has all the inputs: it
  /// begins earlier, at targets that no longer count.
  void fill_last_window() { fills_last_ = true; }
  /// From now on whoever evaluates lets no token see one of another document.
  void keep_documents_apart() { keeps_apart_ = true; }
  [[nodiscard]] bool keeps_documents_apart() const { return keeps_apart_; }
  int64_t validation_batch(SequenceRange range, BatchSpans out) const override;

  /// The beginning of the first window to train on, of as many tokens as there are.
  [[nodiscard]] std::vector<int32_t> sample_prompt(uint64_t seed, int64_t context) const override;

 private:
  [[nodiscard]] std::string checksum_by(std::string (TokenSource::*of)() const) const;
  void require_targets(const TokenRange& range, const char* key) const;

  std::string place_;
  TokenRange train_;
  TokenRange validation_;
  bool fills_last_ = false, keeps_apart_ = false;
};

/// Opens the texts. Foreign ids of token files are found by who reads them. Throws Error for what
/// is missing, unreadable or empty.
[[nodiscard]] Corpus open_corpus(const DataConfig& config, const Tokenizer& tokenizer,
                                 const ReadProgress& progress = {});

}  // namespace ng
