// What Python hears of a run while it goes on, and how it stops one.
#pragma once

#include <atomic>
#include <exception>

#include "bind.h"
#include "train/session.h"

namespace ng::python {

/// Calls `progress` with every line of metrics.jsonl, from the thread that trains. False, an
/// exception or Ctrl-C ask the run to stop: it finishes its step and the checkpoint first.
class RunObserver final : public SessionObserver {
 public:
  /// `notice`: a callable for sentences. `progress`: one for dicts, or None.
  RunObserver(nb::object notice, nb::object progress)
      : notice_(std::move(notice)), progress_(std::move(progress)) {}

  void set_progress(nb::object progress) { progress_ = std::move(progress); }
  [[nodiscard]] const std::atomic<bool>& stop() const { return stop_; }
  /// Throws the exception that Python stopped the run with, if it was one.
  void rethrow();

  void notice(const std::string& sentence) override;
  /// Ctrl-C ends it.
  void reading(int64_t, int64_t) override;
  void line(const Json& object) override;
  void step(const StepMetrics&) override { look_for_signals(); }
  void validation(const ValidationMetrics&) override { look_for_signals(); }
  void checkpoint(int64_t) override { look_for_signals(); }

 private:
  /// What `work` throws is kept until the run has stopped.
  template <class Work>
  void ask(const Work& work);
  void look_for_signals();

  nb::object notice_, progress_;
  std::atomic<bool> stop_ = false;
  std::exception_ptr raised_;
};

}  // namespace ng::python
