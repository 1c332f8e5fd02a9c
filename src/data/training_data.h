// What a run learns from, as batches. What a step sees is a function of (seed, step) alone: there
// is no position to save.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/data_origin.h"

namespace ng {

/// Where a batch goes: each (sequences · context), sequence after sequence.
struct BatchSpans {
  std::span<int32_t> inputs;
  std::span<int32_t> targets;  ///< the token after each input
  std::span<float> mask;       ///< 1: the target counts; 0: it does not, or is padding
  /// Where in its sequence the document of each input begins, as Attention's first_keys; empty:
  /// nobody asks.
  std::span<int32_t> first_keys = {};
};

/// Sequences [first, first + count) of `context` inputs each.
struct SequenceRange {
  int64_t first = 0;
  int64_t count = 0;
  int64_t context = 0;
};

enum class DataPart : uint8_t { train, validation };

class TrainingData {
 public:
  virtual ~TrainingData() = default;

  [[nodiscard]] const DataOrigin& origin() const { return origin_; }
  void set_origin(DataOrigin origin) { origin_ = std::move(origin); }

  /// Whether some token to train on is no target.
  [[nodiscard]] virtual bool has_mask() const = 0;
  [[nodiscard]] virtual bool has_validation() const = 0;
  /// How much there is: "4,184,192 tokens to train on (2,100 targets), 220,220 to validate on".
  [[nodiscard]] virtual std::string size_text() const = 0;
  /// Changes when a token, its mask or the cut between training and validation does.
  [[nodiscard]] virtual std::string checksum() const = 0;
  /// As TokenSource has it; reads all of large files.
  [[nodiscard]] virtual std::string older_checksum() const { return checksum(); }

  /// {"tokens"} of a part, or of pairs {"pairs"}.
  [[nodiscard]] virtual Json counts(DataPart part) const = 0;
  /// Tokens to train on, all of them or, of pairs, pairs: what an epoch is.
  [[nodiscard]] virtual int64_t epoch_items() const = 0;
  /// Tokens from all over a part, 2^20 of them where it has more: enough to know its kind.
  [[nodiscard]] virtual std::vector<int32_t> some_tokens(DataPart part) const = 0;

  /// Throws Error with the numbers where sequences of this length cannot be drawn.
  virtual void require_length(int64_t context) const = 0;
  /// What the user should know of sequences of this length.
  [[nodiscard]] virtual std::vector<std::string> warnings(int64_t /* context */) const {
    return {};
  }

  /// Sequences of one step, numbered through all its micro-batches, drawn by (seed, step, number):
  /// draw group = number of purpose 14, tensor 0. The mask of a target is that of its token.
  virtual void train_batch(uint64_t seed, uint32_t step, SequenceRange range,
                           BatchSpans out) const = 0;

  /// Sequences that cover the validation part once.
  [[nodiscard]] virtual int64_t validation_windows(int64_t context) const = 0;
  /// Those of the range; behind the last target, tokens are 0 and the mask is 0. Returns how many
  /// targets count.
  virtual int64_t validation_batch(SequenceRange range, BatchSpans out) const = 0;

  /// Bytes of text behind the validation targets that count; 0 where the loss is not that of a
  /// text.
  [[nodiscard]] virtual int64_t validation_bytes() const = 0;

  /// Tokens to begin a sample of text with, at least one, where some sequence could be drawn;
  /// `context` is the model's, which sequences need not fill.
  [[nodiscard]] virtual std::vector<int32_t> sample_prompt(uint64_t seed,
                                                           int64_t context) const = 0;

 private:
  DataOrigin origin_;
};

/// Throws InternalError where the spans are not of the range's size.
void require_sizes(const SequenceRange& range, const BatchSpans& out);

/// Uniform in [0, places): floor(r · places / 2^64), r the first 64 bits of the draw of purpose 14
/// with group `sequence`. Uneven by less than places / 2^64.
[[nodiscard]] int64_t draw_place(uint64_t seed, uint32_t step, int64_t sequence, int64_t places);

/// How many are 1.
[[nodiscard]] int64_t count_targets(std::span<const float> mask);

}  // namespace ng
