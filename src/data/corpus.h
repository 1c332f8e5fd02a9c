// The text that a run learns from, cut into a training and a validation part.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/text_pieces.h"
#include "data/texts.h"
#include "data/token_source.h"
#include "data/training_data.h"
#include "data/validation_split.h"
#include "tokenizer/tokenizer.h"

namespace ng {

/// `[data]` of a run file.
struct DataConfig {
  std::string place;                                      ///< the run file, for error messages
  std::string train_folder = {}, validation_folder = {};  ///< as TextsPlace::folder
  std::vector<std::string> train;                         ///< as find_texts takes them
  double validation_share = 0.05;  ///< of the text, in [0, 1); 0: no validation
  ValidationSplit validation_split = ValidationSplit::spread;
  /// Texts of their own; then the share is ignored.
  std::vector<std::string> validation = {};
  int64_t validation_tokens = 0;  ///< as shortened() takes them; 0: all
  TextRules rules = {};
};

class Corpus final : public TrainingData {
 public:
  Corpus(std::string place, TextPieces train, TextPieces validation);

  [[nodiscard]] int64_t train_tokens() const { return train_.tokens(); }
  [[nodiscard]] int64_t validation_tokens() const { return validation_.tokens(); }
  /// In how many pieces those to validate on lie.
  [[nodiscard]] int64_t validation_pieces() const { return std::ssize(validation_.pieces()); }
  /// Tokens to train on that are targets; all but the first where there is no mask.
  [[nodiscard]] int64_t train_targets() const;
  [[nodiscard]] bool has_mask() const override { return train_.source().has_mask(); }
  [[nodiscard]] bool has_validation() const override { return validation_.tokens() > 0; }
  [[nodiscard]] std::string size_text() const override;
  /// Bits per byte = loss sum / ln 2 / this.
  [[nodiscard]] int64_t validation_bytes() const override;
  [[nodiscard]] std::string checksum() const override;
  [[nodiscard]] std::string older_checksum() const override;

  [[nodiscard]] Json counts(DataPart part) const override;
  [[nodiscard]] int64_t epoch_items() const override { return train_tokens(); }
  [[nodiscard]] std::vector<int32_t> some_tokens(DataPart part) const override;

  /// Throws Error with the numbers where a part is too short for sequences of this length: training
  /// needs context + 1 tokens, validation (where there is one) two, and both a target that counts.
  void require_length(int64_t context) const override;

  /// Tokens of a block to validate on before data.validation_tokens cut it.
  void set_whole_block(int64_t tokens) { whole_block_ = tokens; }
  /// Says where blocks to validate on are shorter than a sequence.
  [[nodiscard]] std::vector<std::string> warnings(int64_t context) const override;

  /// Each sequence begins at a place of the training part that is drawn uniformly.
  void train_batch(uint64_t seed, uint32_t step, SequenceRange range,
                   BatchSpans out) const override;

  /// Windows that cover every target of the validation part once, piece after piece: window w of a
  /// piece takes inputs from w · context on. Of a piece the first token is no target.
  [[nodiscard]] int64_t validation_windows(int64_t context) const override;
  /// From now on the last window of a piece, where it has fewer targets than others, has all the
  /// inputs: it begins earlier, at targets that no longer count.
  void fill_last_window() { fills_last_ = true; }
  /// From now on whoever evaluates lets no token see one of another document.
  void keep_documents_apart() { keeps_apart_ = true; }
  [[nodiscard]] bool keeps_documents_apart() const { return keeps_apart_; }
  int64_t validation_batch(SequenceRange range, BatchSpans out) const override;

  /// The beginning of the first window to train on, of as many tokens as there are.
  [[nodiscard]] std::vector<int32_t> sample_prompt(uint64_t seed, int64_t context) const override;

 private:
  [[nodiscard]] std::string checksum_by(std::string (TokenSource::*of)() const) const;
  void require_targets(const TextPieces& part, int64_t targets, const char* key) const;
  /// A window of the validation part: its inputs begin at token `first`, and of its targets those
  /// behind the `uncounted` first count. No targets: there is no such window.
  struct Window {
    int64_t first = 0, targets = 0, uncounted = 0;
  };
  [[nodiscard]] Window window(int64_t number, int64_t context) const;

  std::string place_;
  TextPieces train_;
  TextPieces validation_;
  int64_t whole_block_ = 0;
  bool fills_last_ = false, keeps_apart_ = false;
};

/// Opens the texts. Foreign ids of token files are found by who reads them. Throws Error for what
/// is missing, unreadable or empty.
[[nodiscard]] Corpus open_corpus(const DataConfig& config, const Tokenizer& tokenizer,
                                 const ReadProgress& progress = {});

}  // namespace ng
