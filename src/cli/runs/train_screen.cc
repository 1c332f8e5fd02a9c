#include "cli/runs/train_screen.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/machine.h"
#include "base/text.h"
#include "cli/output.h"
#include "cli/run_tables.h"
#include "recipe/phase_choice.h"
#include "report/memory_text.h"
#include "report/run_text.h"
#include "report/traffic_text.h"
#include "speed/flops.h"
#include "speed/machine.h"
#include "train/session_ranks.h"

namespace ng::cli {
namespace {

constexpr int64_t kPlainLines = 20;  // of a run whose steps are quick, in a pipe
constexpr std::chrono::seconds kPlainPause{10};
constexpr std::chrono::milliseconds kScreenRefresh{100};

std::string preference_text(const PreferenceMetrics& preferences) {
  return fmt::format("margin {:.4f}  accuracy {:.3f}", preferences.margins, preferences.accuracies);
}

// Without --verbose, so that all that is said before step 1 fits a screen.
constexpr size_t kMatchLines = 5, kRecipeLines = 9;

// So many lines of a text, the last of which says how many more there are.
std::string first_lines(const std::string& text, size_t most) {
  const auto lines = static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  if (lines <= most) return text;
  size_t end = 0;
  for (size_t line = 0; line + 1 < most; ++line) end = text.find('\n', end) + 1;
  return text.substr(0, end) + fmt::format("  ... {} more lines: --verbose\n", lines - most + 1);
}

// What casts of noisy weights lost in a step.
std::string noise_casts_text(const OperandStats& lost) {
  const auto percent = [&](uint64_t count) {
    return 100 * static_cast<double>(count) / static_cast<double>(lost.values);
  };
  return fmt::format(
      "of noisy weights, in the last step: {:.3g} % other than in BF16, {:.3g} % became 0, {:.3g} "
      "% are cut off",
      percent(lost.narrowed), percent(lost.flushed), percent(lost.saturated));
}

// What is said beside the loss.
std::string measure_text(const ValidationMetrics& m) {
  return m.preferences ? preference_text(*m.preferences)
                       : fmt::format("{:.4f} bits per byte", m.bits_per_byte);
}

}  // namespace

TrainScreen::TrainScreen(bool verbose)
    : verbose_(verbose), terminal_(output_is_terminal()), last_print_(Clock::now()) {}

// A line that stays, in place of the refreshing one.
void TrainScreen::put_line(const std::string& text) {
  const size_t old = std::exchange(live_columns_, 0);
  if (old == 0) return put(fmt::format("{}\n", text));
  put(fmt::format("\r{:<{}}\n", text, old));
}

void TrainScreen::begin(Session& session, const std::string& out) {
  reading_.clear();
  const RunConfig& config = session.config();
  steps_ = config.train.steps;
  has_phases_ = session.recipe().phase_starts().size() > 1;
  const RankGroups& groups = session.run().ranks();
  const int ranks = groups.world().ranks(), tensor = groups.tensor().ranks();
  const Backend& backend = session.run().backend();
  const double peak =
      backend.device_name().empty() ? measured_peak_flops({session.threads()}) : 0;  // of FP32
  peak_flops_ = peak * ranks;
  flops_per_token_ = flops_per_token(session.model(), session.trainer().settings().length);
  put(fmt::format("run         {} into {}, seed {}{}\n", on_one_line(config.place),
                  on_one_line(out), config.seed, report::twin_text(session)));
  put(fmt::format("model       {}\n", report::model_text(session.model().config())));
  put(fmt::format("parameters  {}\n", count_text(session.model().parameter_count())));
  const DataOrigin& origin = session.data().origin();
  put(fmt::format("text        {}\n", report::data_text(session.data())));
  if (!origin.train.read.empty()) put(fmt::format("files       {}\n", text_of(origin.train)));
  const std::string recipe = report::recipe_text(session);
  const std::string matches = report::matches_text(session);
  const std::string few = first_lines(matches, kMatchLines);
  const auto left = kRecipeLines - static_cast<size_t>(std::ranges::count(few, '\n'));
  put(fmt::format("recipe      {}", verbose_ ? recipe : first_lines(recipe, left)));
  put(verbose_ ? matches : few);
  put(fmt::format(
      "backend     {} ({}{})\n", config.train.backend, machine_text(backend, {session.threads()}),
      peak > 0 ? fmt::format(", measured peak {:.3g} GFLOP/s in FP32", peak / 1e9) : ""));
  if (ranks > 1) {
    const std::string layout =
        tensor > 1 ? fmt::format(" in groups of {} that divide every layer", tensor) : "";
    put(fmt::format("ranks       {}{}, each{} with {} of a step; they send {}\n", ranks, layout,
                    tensor > 1 ? " group" : "",
                    counted(session.trainer().settings().micros, "micro-batch"),
                    report::traffic_text(traffic_of(session))));
  }
  put_memory(session);
  if (const std::string roles = report::roles_text(session.trainer().memory()); !roles.empty())
    put(fmt::format("roles       {}\n", roles));
  put(fmt::format("schedule    {}\n\n",
                  report::schedule_text(config, session.trainer().settings(), ranks / tensor)));
}

void TrainScreen::put_memory(Session& session) {
  const MemoryPlan plan = session.trainer().memory(), fp32 = session.memory_in_fp32();
  const int64_t parameters = session.model().parameter_count();
  if (verbose_) return put(memory_table(plan, fp32, parameters));
  const std::string label = "memory      ";
  put(fmt::format("{}{}\n{:{}}{}", label, report::memory_at_peak_text(plan, fp32, parameters), "",
                  label.size(),
                  in_lines("at most " + report::memory_kinds_text(plan), label.size())));
}

void TrainScreen::notice(const std::string& sentence) {
  reading_.clear();
  if (live_columns_ > 0) put("\n");
  live_columns_ = 0;
  note(sentence);
}

std::string TrainScreen::progress(const StepMetrics& m, size_t columns) const {
  struct Field {
    int rank;  // what does not fit goes, the highest first
    std::string text;
  };
  std::vector<Field> fields = {
      {0, fmt::format("step {:>{}}/{}", m.step, std::to_string(steps_).size(), steps_)},
      {0, fmt::format("loss {:.4f}", std::fabs(m.loss))},  // no "-nan"
      {3, fmt::format("lr {:.2e}", m.lr)},
      {2, fmt::format("grad norm {:.3f}", std::fabs(m.grad_norm))},
      {1, fmt::format("{:.0f} tokens/s", m.tokens_per_second)},
      {0, fmt::format("{} left", duration_text(m.eta_seconds))}};
  if (peak_flops_ > 0)
    fields.insert(fields.end() - 1,
                  {4, fmt::format("{:.0f} % of FP32 peak",
                                  100 * m.tokens_per_second * flops_per_token_ / peak_flops_)});
  if (m.preferences) fields.insert(fields.begin() + 2, {1, preference_text(*m.preferences)});
  if (m.skipped) fields.push_back({0, "skipped"});
  const auto line = [&](int most) {
    std::string text;
    for (const Field& field : fields)
      if (field.rank <= most) text += (text.empty() ? "" : "  ") + field.text;
    return text;
  };
  int most = 4;
  while (most > 0 && line(most).size() > columns) --most;
  return line(most).substr(0, columns);
}

void TrainScreen::step(const StepMetrics& metrics) {
  const Clock::time_point now = Clock::now();
  const bool ends = metrics.step == 1 || metrics.step == steps_;
  if (terminal_) {
    if (!ends && now - last_print_ < kScreenRefresh) return;
    const std::string line = progress(metrics, terminal_columns() - 1);
    const size_t old = std::exchange(live_columns_, line.size());
    put(fmt::format("\r{:<{}}", line, old));
  } else {
    const int64_t every = std::max<int64_t>(1, steps_ / kPlainLines);
    if (!ends && metrics.step % every != 0 && now - last_print_ < kPlainPause) return;
    put(progress(metrics, std::string::npos) + '\n');
  }
  last_print_ = now;
}

void TrainScreen::validation(const ValidationMetrics& metrics) {
  put_line(fmt::format("step {:>{}}/{}  validation loss {:.4f}  {}{}", metrics.step,
                       std::to_string(steps_).size(), steps_, metrics.loss, measure_text(metrics),
                       has_phases_ ? fmt::format("  in phase {}", metrics.phase) : ""));
}

void TrainScreen::end(Session& session, const SessionResult& result, const std::string& out) {
  if (live_columns_ > 0) put("\n");
  live_columns_ = 0;
  TimeByKind training = session.run().seconds();
  for (size_t kind = 0; kind < kTimeKinds; ++kind) training[kind] -= result.validating[kind];
  put(fmt::format("\n{}",
                  time_table(training, {{"validation", total_seconds(result.validating)}})));
  if (result.skipped > 0)
    put(fmt::format("skipped     {} steps: something was not finite\n", result.skipped));
  if (result.validation)
    put(fmt::format("validation  loss {:.4f}, {}, in the numbers of {}{}\n",
                    result.validation->loss, measure_text(*result.validation),
                    text_of(session.recipe(), phase_of(session.recipe(), result.validation->phase)),
                    report::forward_text(session, result.validation->phase)));
  if (result.noisy_weights.values > 0)
    put(fmt::format("casts       {}\n", noise_casts_text(result.noisy_weights)));
  if (!result.sample.empty()) put(fmt::format("sample\n{}\n\n", readable(result.sample)));
  put(fmt::format("model       {}\nreport      {}\nmetrics     {}\ncheckpoints {}\n",
                  on_one_line(session.model_folder()), on_one_line(join_path(out, "report.html")),
                  on_one_line(join_path(out, "metrics.jsonl")),
                  on_one_line(session.checkpoints_folder())));
}

void TrainScreen::interrupted(const SessionResult& result, const std::string& how_to_resume) {
  if (live_columns_ > 0) put("\n");
  live_columns_ = 0;
  const std::string more = how_to_resume.empty() ? "" : "; to go on:\n  " + how_to_resume;
  put(fmt::format("stopped after step {}{}\n", result.steps, more));
}

void TrainScreen::require_written() const {
  output_.require_written("the run itself is complete in its folder");
}

}  // namespace ng::cli
