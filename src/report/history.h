// A run as metrics.jsonl tells it: what the report shows, and what a resumed run begins with.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "report/series.h"
#include "train/stretches.h"

namespace ng::report {

/// Points of the curves of a whole run and of those of one operand or matrix.
inline constexpr size_t kPoints = 2000;
inline constexpr size_t kOperandPoints = 100;

/// What is known of an operand's cast, of a matrix's updates and of a layer's bit-widths, and what
/// metrics.jsonl calls it.
enum class Loss : uint8_t { sqnr_db, saturated, flushed };
inline constexpr std::string_view kLosses[] = {"sqnr_db", "saturated", "flushed"};
inline constexpr Loss kAllLosses[] = {Loss::sqnr_db, Loss::saturated, Loss::flushed};
enum class UpdateMetric : uint8_t { changed, ratio, projection, cosine, alpha_over_lr };
inline constexpr std::string_view kUpdateMetrics[] = {"changed", "ratio", "projection", "cosine",
                                                      "alpha_over_lr"};
enum class BitMetric : uint8_t { mean, sd, least, most, up_to_5, up_to_9, up_to_12 };
inline constexpr std::string_view kBitMetrics[] = {"mean",    "sd",      "min",     "max",
                                                   "up_to_5", "up_to_9", "up_to_12"};

/// These figures over time: a series of each.
using Curves = std::vector<Series>;
using CurvesByLayer = std::map<std::string, Curves>;

/// Reads a file that grows.
class History {
 public:
  /// `points` of each curve at most.
  explicit History(std::string path, size_t points = kPoints);

  /// Takes the complete lines that have come since the last call; none where there is no file yet.
  void read();

  [[nodiscard]] const Series& loss() const { return loss_; }
  [[nodiscard]] const Series& val_loss() const { return val_loss_; }
  [[nodiscard]] const Series& lr() const { return lr_; }
  [[nodiscard]] const Series& grad_norm() const { return grad_norm_; }
  [[nodiscard]] const Series& tokens_per_second() const { return tokens_per_second_; }
  /// Of a run on pairs, by the names of metrics.jsonl: "rewards/margins".
  [[nodiscard]] const std::map<std::string, Series>& preferences() const { return preferences_; }
  /// The same of validations, by the same names.
  [[nodiscard]] const std::map<std::string, Series>& val_preferences() const {
    return val_preferences_;
  }
  /// By layer, in the order of the model, and role.
  [[nodiscard]] const std::map<std::string, CurvesByLayer>& operands() const { return operands_; }
  /// By layer, whose weight the matrix is.
  [[nodiscard]] const CurvesByLayer& updates() const { return updates_; }
  /// By layer, where weights have noise.
  [[nodiscard]] const CurvesByLayer& bit_widths() const { return bits_; }

  /// "5 files (1.9 MiB)" and "64 blocks spread over the text": what was read and what validates, as
  /// of the last process; empty where no line says it.
  [[nodiscard]] const std::string& train_text() const { return train_text_; }
  [[nodiscard]] const std::string& validation_text() const { return validation_text_; }
  /// Of the run so far, the first from its start on.
  [[nodiscard]] const std::vector<Stretch>& stretches() const { return stretches_; }
  [[nodiscard]] int64_t steps() const { return steps_; }
  [[nodiscard]] int64_t tokens() const { return tokens_; }
  [[nodiscard]] int64_t skipped() const { return skipped_; }
  /// Of the last validation; NaN before the first.
  [[nodiscard]] double last_val_loss() const { return last_val_loss_; }
  [[nodiscard]] double last_bits_per_byte() const { return last_bits_per_byte_; }
  /// In training steps, by the processes that worked on the run, what was lost left out.
  [[nodiscard]] double seconds() const { return earlier_seconds_ + seconds_; }
  /// Bytes of the last step by kind, of a run on several ranks.
  [[nodiscard]] const std::map<std::string, double>& sent() const { return sent_; }
  /// By kind of operation, of all processes, up to the last checkpoint.
  [[nodiscard]] std::map<std::string, double> seconds_by_kind() const;

 private:
  size_t take_lines(std::string_view text);
  void take(const Json& line);
  void take_step(const Json& line);
  void take_preferences(const Json& line);
  void take_layers(const Json& line);
  void take_event(const Json& line);
  void take_data(const Json& line);

  std::string path_;
  uint64_t bytes_ = 0;  // of complete lines, taken so far
  size_t points_;
  Series loss_, val_loss_, lr_, grad_norm_, tokens_per_second_;
  std::map<std::string, Series> preferences_, val_preferences_;
  std::map<std::string, CurvesByLayer> operands_;
  CurvesByLayer updates_, bits_;
  std::vector<Stretch> stretches_;
  int64_t steps_ = 0, tokens_ = 0, skipped_ = 0;
  double last_val_loss_, last_bits_per_byte_;
  double earlier_seconds_ = 0, seconds_ = 0;
  std::map<std::string, double> earlier_kinds_, kinds_, sent_;
  std::string train_text_, validation_text_;
};

}  // namespace ng::report
