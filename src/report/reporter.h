// Writes report.html and TensorBoard's events into the folder of a run while it trains.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "report/event_file.h"
#include "report/history.h"
#include "report/run_page.h"
#include "train/session.h"

namespace ng::report {

/// Passes all that it hears on to another observer. Where a file cannot be written it says so once
/// and lets the run go on.
class RunReporter final : public SessionObserver {
 public:
  explicit RunReporter(SessionObserver& next) : next_(next) {}
  /// Of a run that ended in an error the page shows how it came to it.
  ~RunReporter() override;
  RunReporter(const RunReporter&) = delete;
  RunReporter& operator=(const RunReporter&) = delete;

  void notice(const std::string& sentence) override { next_.notice(sentence); }
  void reading(int64_t done, int64_t bytes) override { next_.reading(done, bytes); }
  void line(const Json& object) override { next_.line(object); }
  void started(Session& session, int64_t step) override;
  void step(const StepMetrics& metrics) override;
  void validation(const ValidationMetrics& metrics) override;
  void checkpoint(int64_t step) override;
  void finished(const SessionResult& result) override;

 private:
  using Clock = std::chrono::steady_clock;
  void take_bits(int64_t step);
  void write_page();
  void write_page_if_cheap();
  void add_events(int64_t step, std::span<const Scalar> scalars);
  template <class Work>
  void attempt(const Work& work);

  SessionObserver& next_;
  std::string folder_, checkpoints_;
  std::optional<Recipe> recipe_;
  RunFacts facts_;
  std::optional<History> history_;
  std::unique_ptr<EventFile> events_;  ///< null where there can be none
  int64_t first_step_ = 1;             ///< of this process
  bool has_failed_ = false;
  bool is_finished_ = false;
  Clock::time_point last_page_;
  Clock::duration cost_of_page_{};
};

}  // namespace ng::report
