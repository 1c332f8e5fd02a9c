#include "report/reporter.h"

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "io/checkpoint_files.h"
#include "learned/bits.h"
#include "train/checkpoint.h"
#include "train/run_files.h"

namespace ng::report {
namespace {

constexpr int kPagesCostAtMost = 100;  // a page is written anew after so many times what it took

}  // namespace

RunReporter::~RunReporter() {
  if (history_ && !is_finished_) write_page();
}

template <class Work>
void RunReporter::attempt(const Work& work) {
  try {
    work();
  } catch (const std::exception& error) {
    if (!has_failed_) next_.notice(std::string(error.what()) + "; training goes on");
    has_failed_ = true;
  }
}

void RunReporter::add_events(int64_t step, std::span<const Scalar> scalars) {
  // A finished run that is resumed validates again what the last process already told.
  if (!events_ || step < first_step_) return;
  std::unique_ptr<EventFile> events = std::move(events_);  // half a record ends the file
  attempt([&] {
    events->add(step, scalars);
    events_ = std::move(events);
  });
}

// From the checkpoint of `step`, where there is one: what a page shows is what a run could go on
// with, and no step waits for it.
void RunReporter::take_bits(int64_t step) {
  attempt([&] {
    for (const io::CheckpointEntry& checkpoint : io::list_checkpoints(checkpoints_)) {
      if (checkpoint.step != step) continue;
      const io::Safetensors state(join_path(checkpoint.path, kStateFile));
      facts_.bits = learned_bits(state, &*recipe_);
      facts_.bits_step = step;
    }
  });
}

void RunReporter::write_page() {
  const Clock::time_point start = Clock::now();
  attempt([&] {
    history_->read();
    write_file_atomically(join_path(folder_, kReportFile), html_of(run_page(facts_, *history_)));
  });
  last_page_ = Clock::now();
  cost_of_page_ = last_page_ - start;
}

void RunReporter::write_page_if_cheap() {
  if (Clock::now() - last_page_ >= kPagesCostAtMost * cost_of_page_) write_page();
}

void RunReporter::started(Session& session, int64_t step) {
  folder_ = session.folder();
  checkpoints_ = session.checkpoints_folder();
  recipe_.emplace(session.recipe());
  first_step_ = step + 1;
  facts_ = facts_of(session);
  history_.emplace(join_path(folder_, kMetricsFile));
  attempt([&] { events_ = std::make_unique<EventFile>(folder_, first_step_); });
  if (step > 0) take_bits(step);
  next_.started(session, step);
  last_page_ = Clock::now();
}

void RunReporter::step(const StepMetrics& metrics) {
  std::vector<Scalar> scalars = {{"loss", metrics.loss},
                                 {"lr", metrics.lr},
                                 {"grad_norm", metrics.grad_norm},
                                 {"tokens_per_second", metrics.tokens_per_second}};
  if (metrics.preferences)
    for (const Scalar& scalar : named_values(*metrics.preferences)) scalars.push_back(scalar);
  add_events(metrics.step, scalars);
  next_.step(metrics);
}

void RunReporter::validation(const ValidationMetrics& metrics) {
  std::vector<Scalar> scalars = {{"val_loss", metrics.loss}};
  std::vector<std::pair<std::string, double>> of_pairs;
  if (metrics.preferences)
    for (const auto& [name, value] : named_values(*metrics.preferences))
      of_pairs.emplace_back(fmt::format("val_{}", name), value);
  else
    scalars.emplace_back("val_bits_per_byte", metrics.bits_per_byte);
  scalars.insert(scalars.end(), of_pairs.begin(), of_pairs.end());
  add_events(metrics.step, scalars);
  next_.validation(metrics);
  write_page_if_cheap();
}

void RunReporter::checkpoint(int64_t step) {
  take_bits(step);
  next_.checkpoint(step);
  write_page_if_cheap();
}

void RunReporter::finished(const SessionResult& result) {
  is_finished_ = true;
  facts_.sample = result.sample;
  attempt([&] {
    if (events_) events_->sync();
  });
  write_page();
  next_.finished(result);
}

}  // namespace ng::report
