// What a training run looks like in a terminal, in a pipe and in a log.
#pragma once

#include <chrono>
#include <string>

#include "cli/output.h"
#include "cli/progress_line.h"
#include "train/session.h"

namespace ng::cli {

/// Prints what is trained before the first step, a line that refreshes on a terminal (plain lines
/// now and then elsewhere), and the results. When standard output fails, training goes on unseen
/// and `require_written` says so at the end.
class TrainScreen final : public SessionObserver {
 public:
  /// `verbose`: tables of memory and all groups of layers, where they do not fit a screen either.
  explicit TrainScreen(bool verbose);

  /// Model, recipe, memory and schedule; measures the machine's peak.
  void begin(Session& session, const std::string& out);
  void notice(const std::string& sentence) override;
  void reading(int64_t done, int64_t bytes) override { reading_.show_bytes(done, bytes); }
  void step(const StepMetrics& metrics) override;
  void validation(const ValidationMetrics& metrics) override;
  /// Where the time went, validation, sample, paths.
  void end(Session& session, const SessionResult& result, const std::string& out);
  void interrupted(const SessionResult& result, const std::string& how_to_resume);

  /// Throws Error where something could not be printed.
  void require_written() const;

 private:
  using Clock = std::chrono::steady_clock;
  void put(const std::string& text) { output_.put(text); }
  void put_line(const std::string& text);
  void put_memory(Session& session);
  /// What of a step fits so many columns.
  [[nodiscard]] std::string progress(const StepMetrics& metrics, size_t columns) const;

  bool verbose_;
  bool terminal_;
  size_t live_columns_ = 0;  ///< of the refreshing line that is on the screen
  SteadyOutput output_;
  ProgressLine reading_{"MB"};  ///< until begin()
  int64_t steps_ = 0;
  bool has_phases_ = false;
  double peak_flops_ = 0;  ///< of the host; 0: it does not compute
  double flops_per_token_ = 0;
  Clock::time_point last_print_;
};

}  // namespace ng::cli
