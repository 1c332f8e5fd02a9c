// metrics.jsonl: one JSON object a line, complete lines only, continued after a resume.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/json_fwd.h"
#include "train/trainer.h"

namespace ng {

struct RunTraffic;

/// What the progress line and metrics.jsonl say of one step.
struct StepMetrics {
  int64_t step = 0;    ///< steps done, this one included
  int64_t tokens = 0;  ///< trained on so far
  double loss = 0;     ///< mean over the targets in nats, or over the pairs, before the update
  double lr = 0;
  double grad_norm = 0;
  double tokens_per_second = 0;  ///< moving average
  double seconds = 0;            ///< of this process, since its first step
  double eta_seconds = 0;
  bool skipped = false;
  std::optional<BytesByTraffic> sent{};  ///< by all ranks together, where there are several
  ExchangeSeconds exchange{};            ///< of rank 0, where there are several
  std::optional<int64_t> targets = {};   ///< that count in this step, where a mask says which
  std::optional<PreferenceMetrics> preferences{};  ///< where the loss is that of pairs
};

struct ValidationMetrics {
  int64_t step = 0;
  double loss = 0;           ///< mean cross-entropy per token, nats; or mean loss of pairs
  double bits_per_byte = 0;  ///< of the text behind the targets; 0 of pairs
  int phase = 0;             ///< of the run's recipe, in whose numbers it was
  std::optional<PreferenceMetrics> preferences{};  ///< where the loss is that of pairs
};

/// Names and values, as TRL logs them.
[[nodiscard]] std::vector<std::pair<std::string_view, double>> named_values(
    const PreferenceMetrics& preferences);

/// {"gemm fprop": seconds, ...}, every kind.
[[nodiscard]] Json time_json(const TimeByKind& seconds);
/// {"weights": bytes, ..., "gaps": bytes}, every kind.
[[nodiscard]] Json memory_json(const MemoryPlan& plan);
/// Of each kind the most at any time, in bytes: parameters, states and gradients as they are
/// stored.
[[nodiscard]] Json most_json(const MemoryPlan& plan);
/// {"weight": {"kind": "weights", "elements": ["bf16", "fp32"], "bytes": ...}, "carry": ...}: what
/// persists of the parameters, as stored.
[[nodiscard]] Json stored_json(const MemoryPlan& plan);
/// The event `memory`: a plan beside that of FP32 AdamW.
[[nodiscard]] Json memory_event(const MemoryPlan& plan, const MemoryPlan& fp32, int64_t parameters);

/// {"gradients": bytes, ..., "files": bytes}, every kind.
[[nodiscard]] Json sent_json(const BytesByTraffic& sent);
/// The event `traffic`: what a step will send, beside both baselines.
[[nodiscard]] Json traffic_event(const RunTraffic& traffic);

/// Where a MetricsFile at `path` keeps what it replaces.
[[nodiscard]] std::string replaced_metrics(const std::string& path);
/// Whether a file holds a line as MetricsFile writes them.
[[nodiscard]] bool holds_metrics(const std::string& path);

class MetricsFile {
 public:
  /// Continues the file at `path` with the lines of steps up to `last_step`; later ones and a torn
  /// last line are from a run that did not reach its next checkpoint, and go, as do damaged ones,
  /// of which `notice` hears. Until saved() says that something new is safe, what was there before
  /// is kept beside it; without that the destructor puts it back.
  MetricsFile(const std::string& path, int64_t last_step,
              const std::function<void(const std::string&)>& notice);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  /// From now on `heard` is given every line that was written.
  void set_listener(std::function<void(const Json& line)> heard) { heard_ = std::move(heard); }

  /// `operands`, `updates` and `bit_widths` are left out where they are empty.
  void write(const StepMetrics& step, const Json& operands, const Json& updates,
             const Json& bit_widths);
  /// Does nothing where the kept lines hold that step's validation.
  void write(const ValidationMetrics& validation);
  /// The last step with a validation in the file; -1 where there is none.
  [[nodiscard]] int64_t validated() const { return validated_; }
  /// {"event": name, "step": step, ...details}
  void event(const std::string& name, int64_t step, const Json& details);
  void event(const std::string& name, int64_t step);

  /// Makes all lines survive a power failure.
  void sync() { file_->sync(); }
  /// A checkpoint holds what the lines tell of: what they replace may go.
  void saved();
  /// What was written stays where this ends without saved(), and so does what it replaces, beside
  /// it. The next to open the file keeps one of them.
  void keep_both();

 private:
  class Replaced;
  void line(const Json& object);
  std::string path_;
  std::unique_ptr<Replaced> replaced_;
  std::unique_ptr<AppendFile> file_;
  std::function<void(const Json&)> heard_;
  int64_t validated_ = -1;
};

}  // namespace ng
