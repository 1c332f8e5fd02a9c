#include "train/session.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/json.h"
#include "comm/agreement.h"
#include "io/checkpoint_files.h"
#include "model/weights.h"
#include "recipe/matches.h"
#include "recipe/warnings.h"
#include "train/bit_widths.h"
#include "train/global_batch.h"
#include "train/operand_report.h"
#include "train/run_files.h"
#include "train/run_inputs.h"
#include "train/run_model.h"
#include "train/session_ranks.h"
#include "train/session_start.h"
#include "train/small_run.h"
#include "train/update_metrics.h"
#include "train/validation.h"

namespace ng {
namespace {

constexpr int kMaxConsecutiveSkips = 5;  // more than a rare overflow: the run is lost
constexpr int64_t kDetailEvery = 50;     // steps between metrics of every single tensor

/// Of what happens every so many steps; 0: never.
bool is_due(int64_t every, int64_t done) { return every > 0 && done % every == 0; }

RunConfig begun(const RunConfig& config, const SessionOptions& options) {
  return options.resume ? as_begun(config, options.out) : config;
}

std::vector<std::string> names_of_linears(const Model& model) {
  std::vector<std::string> names;
  for (const Linear* linear : model.linears()) names.push_back(linear->name());
  return names;
}

}  // namespace

Session::Session(const RunConfig& config, SessionOptions options, SessionObserver& observer)
    : Session(options, observer,
              open_inputs(begun(config, options), options.comm,
                          [&](int64_t done, int64_t bytes) { observer.reading(done, bytes); })) {}

Session::Session(const SessionOptions& options, SessionObserver& observer, RunInputs inputs)
    : config_(std::move(inputs.config)),
      options_(options),
      observer_(observer),
      recipe_(std::move(inputs.recipe)),
      threads_{config_.train.threads > 0 ? static_cast<int>(config_.train.threads)
                                         : available_cores()},
      tokenizer_(std::move(inputs.tokenizer)),
      data_(std::move(inputs.data)) {
  if (options_.comm != nullptr) require_equal_inputs(*options_.comm, config_, recipe_, *data_);
  if (options_.resume)
    keep_global_batch(options_.comm, checkpoints_folder(), config_,
                      [&](const std::string& sentence) { observer_.notice(sentence); });
  ModelConfig model;
  on_all(options_.comm, [&] { model = checked_model(); });
  run_ = std::make_unique<Run>(backend_of(config_, threads_), config_.seed, config_.twin,
                               options_.comm, config_.train.tensor_parallel);
  model_ = std::make_unique<Model>(*run_, model, recipe_, config_.train.recompute,
                                   weight_gather(config_.train.deterministic));
  for (const std::string& warning :
       noise_warnings(recipe_, names_of_linears(*model_), model.layers))
    observer_.notice(warning);
  on_all(options_.comm, [&] { check_gemms(*model_, config_.train.backend, recipe_.compute(0)); });
  StepSettings settings = step_settings(config_, model);
  settings.masked = data_->has_mask();
  if (settings.dpo) {
    reference_ = make_reference(*run_, *model_, recipe_, *settings.dpo);
    check_gemms(*reference_, config_.train.backend, recipe_.compute(0));
  }
  trainer_ = std::make_unique<Trainer>(*run_, *model_, recipe_, settings, reference_.get());
  check_model_updates(*model_, config_.train.backend, recipe_.settings(0).optimizer,
                      settings.optimizer);
  memory_in_fp32_ = plan_memory_in_fp32(run_->backend(), model, config_.train.recompute, settings);
  const std::string checksum = put_first_values(*run_, *model_, config_);
  if (model.lora.is_used() || reference_) reference_checksum_ = checksum;  // of what is not saved
  if (const std::string text = adapters_text(*model_); !text.empty()) observer_.notice(text);
  if (reference_) put_reference_values(*run_, *reference_, *model_, config_);
}

Session::~Session() = default;

ModelConfig Session::checked_model() {
  const auto notice = [&](const std::string& sentence) { observer_.notice(sentence); };
  const ModelConfig model =
      checked_run_model(config_, recipe_, *tokenizer_, *data_, options_.comm, notice);
  complete_run(config_, model, *data_, options_.comm, notice);
  likeness_ = validation_likeness(*data_, *tokenizer_);
  settings_ = run_model_settings(config_, *tokenizer_);
  return model;
}

bool Session::is_writer() const { return world().rank() == kWriter; }

std::string Session::checkpoints_folder() const {
  return join_path(options_.out, kCheckpointsFolder);
}
std::string Session::model_folder() const { return join_path(options_.out, kModelFolder); }

void Session::follow_phase(int64_t step) {
  const double progress = static_cast<double>(step) / static_cast<double>(config_.train.steps);
  if (const int phase = recipe_.phase_at(progress); phase != trainer_->phase())
    trainer_->set_phase(phase);
}

void Session::fill_batches(int64_t step) {
  const StepSettings& settings = trainer_->settings();
  for (int64_t micro = 0; micro < settings.micros; ++micro) {
    const BatchSpans to = trainer_->train_tokens(micro);
    data_->train_batch(config_.seed, static_cast<uint32_t>(step),
                       {.first = (trainer_->first_micro() + micro) * settings.sequences,
                        .count = settings.sequences,
                        .context = settings.length},
                       to);
  }
}

void Session::note_skip(int64_t step, const StepReport& report) {
  ++result_.skipped;
  if (consecutive_skips_++ > 0) return;
  if (!report.overflowing.empty()) {
    origin_of_skips_ = report.overflowing;
    problem_of_skips_ = "beyond the range of " + report.format;
  } else {
    const Diagnosis diagnosis = trainer_->diagnose(step);
    const std::string found = diagnosis.found ? diagnosis.layer + ' ' + diagnosis.operand : "";
    origin_of_skips_ = first_text(world(), found);
    if (origin_of_skips_.empty()) origin_of_skips_ = "loss or gradient norm";
    problem_of_skips_ = "not finite";
  }
  if (log_) log_->event("skipped step", step + 1, {{"origin", origin_of_skips_}});
  observer_.notice(
      fmt::format("step {} skipped: {} is {}", step + 1, origin_of_skips_, problem_of_skips_));
}

void Session::require_convergence(int64_t step) const {
  if (consecutive_skips_ < kMaxConsecutiveSkips) return;
  const int64_t first = step + 2 - consecutive_skips_;
  if (log_) log_->event("diverged", step + 1, {{"origin", origin_of_skips_}, {"since", first}});
  if (log_) log_->keep_both();
  on_all(world(), [&] {
    throw Diverged({.place = options_.out,
                    .key = origin_of_skips_,
                    .problem = fmt::format("{} in {} steps in a row, since step {}",
                                           problem_of_skips_, consecutive_skips_, first),
                    .remedy = "a lower lr or a wider format there; " + last_whole_state()},
                   first);
  });
}

// What a run that must stop can go back to.
std::string Session::last_whole_state() const {
  if (last_saved_ == 0) return "there is no checkpoint yet";
  return fmt::format("the checkpoint of step {} is whole", last_saved_);
}

// Steps whose metrics name every operand of every layer and every parameter. `step` counts from 1.
bool Session::shows_every_tensor(int64_t step) const {
  return step == 1 || step == config_.train.steps || step % kDetailEvery == 0;
}

void Session::train_one(int64_t step) {
  follow_phase(step);
  const double lr = learning_rate(config_.schedule(), step);
  fill_batches(step);
  const bool detail = shows_every_tensor(step + 1);
  trainer_->set_reports_details(detail);
  const StepReport report = trainer_->step(step, static_cast<float>(lr));
  if (report.skipped)
    note_skip(step, report);
  else
    consecutive_skips_ = 0;
  clock_.tick();
  StepMetrics metrics;
  metrics.step = step + 1;
  metrics.tokens = (step + 1) * trainer_->tokens_per_step();
  metrics.loss = report.loss;
  metrics.lr = lr;
  metrics.grad_norm = report.grad_norm;
  metrics.tokens_per_second =
      static_cast<double>(trainer_->tokens_per_step()) / clock_.seconds_per_step;
  metrics.seconds = clock_.seconds();
  metrics.eta_seconds =
      static_cast<double>(config_.train.steps - step - 1) * clock_.seconds_per_step;
  metrics.skipped = report.skipped;
  if (trainer_->settings().masked) metrics.targets = report.targets;
  metrics.preferences = report.preferences;
  if (world().ranks() > 1) metrics.sent = report.sent;
  metrics.exchange = report.exchange;
  const std::vector<OperandStats> counted = model_->read_stats(*run_);
  result_.noisy_weights = lost_of_noisy_weights(counted, *model_);
  const bool is_updated = detail && !report.skipped && report.targets > 0;
  // Reports are those of all ranks, which all ask for them.
  const Json updates = is_updated ? updates_json(*model_, trainer_->update_reports(), lr) : Json();
  if (log_)
    log_->write(metrics,
                detail ? operand_shares_by_layer(counted, *model_, trainer_->operand_errors())
                       : operand_shares(counted),
                updates, detail ? bit_widths_json(*run_, *model_, recipe_) : Json());
  observer_.step(metrics);
  require_convergence(step);
}

bool Session::must_stop() {
  return any(world(), options_.stop != nullptr && options_.stop->load());
}

bool Session::is_validated(int64_t done) const {
  return !data_->has_validation() || last_validated_ == done;
}

void Session::validate(int64_t done) {
  if (is_validated(done)) return;
  const TimeByKind before = run_->seconds();
  const std::optional<ValidationMetrics> metrics =
      validation_of(*data_, *trainer_, run_->comm(), [&] { return must_stop(); });
  for (size_t kind = 0; kind < kTimeKinds; ++kind)
    result_.validating[kind] += run_->seconds()[kind] - before[kind];
  if (!metrics) return;  // a resumed run makes up for it
  last_validated_ = done;
  result_.validation = metrics;
  result_.validation->step = done;
  if (log_) log_->write(*result_.validation);
  observer_.validation(*result_.validation);
  clock_.leave_out();
}

void Session::validate_if_due(int64_t done) {
  if (is_due(config_.train.validate_every, done)) validate(done);
}

void Session::save(int64_t done) {
  if (last_saved_ == done) return;
  if (log_) log_->event("time", done, {{"seconds", time_json(run_->seconds())}});
  if (log_) log_->sync();  // a checkpoint promises the lines of all its steps
  save_checkpoint(checkpoints_folder(), done, *run_, identity_,
                  static_cast<int>(config_.train.keep_checkpoints));
  if (log_) log_->saved();
  last_saved_ = done;
  save_due_ = false;
  observer_.checkpoint(done);
  clock_.leave_out();
}

void Session::every_so_often(int64_t done) {
  validate_if_due(done);
  save_due_ = save_due_ || is_due(config_.train.checkpoint_every, done);
  // Steps that are skipped change nothing: saving them would only push good checkpoints out.
  if (save_due_ && consecutive_skips_ == 0) save(done);
}

void Session::interrupt(int64_t done) {
  save(done);
  if (log_) log_->event("interrupted", done);
  result_.interrupted = true;
}

void Session::finish() {
  validate(config_.train.steps);
  if (!is_validated(config_.train.steps)) return interrupt(config_.train.steps);
  save(config_.train.steps);
  if (log_) log_->saved();
  if (is_writer()) write_results();
}

void Session::write_results() {
  // Saves nothing when a finished run is resumed, but what a kill left there must go.
  io::prune_checkpoints(checkpoints_folder(), static_cast<int>(config_.train.keep_checkpoints));
  if (!model_->is_part()) return write_model(*run_, *model_);
  // Each rank has parts of the layers, or copies of the values; the last checkpoint has them all.
  Run whole(backend_of(config_, threads_), config_.seed, config_.twin);
  Model model(whole, model_->config(), recipe_, config_.train.recompute);
  for (const io::CheckpointEntry& saved : io::list_checkpoints(checkpoints_folder()))
    if (saved.step == last_saved_) (void)restore_checkpoint(saved, whole, identity_);
  model.set_phase(whole, trainer_->phase());
  write_model(whole, model);
}

void Session::write_model(Run& run, Model& model) {
  write_run_model(model_folder(), config_, run, model, *tokenizer_, settings_.get());
  try {
    result_.sample = sample_text(run, model, *data_, *tokenizer_);
  } catch (const Error& error) {  // a model whose logits are not finite; all is written by now
    observer_.notice(fmt::format("no sample: {}", error.what()));
  }
}

SessionResult Session::train() {
  take_folder();
  identity_ = identity();
  const int64_t start = restore();
  require_equal_bits(world(), config_.train.backend, model_->config(), recipe_);
  require_equal_results(world(), config_.seed, *data_, *trainer_);
  if (is_writer()) begin_files(start);
  if (likeness_ && likeness_->is_unlike()) observer_.notice(warning_of(*likeness_));
  observer_.started(*this, start);
  clock_ = {};
  last_saved_ = start;
  const bool lacks =
      start > 0 && start > number_of(world(), kWriter, log_ ? log_->validated() : -1);
  if (lacks && start < config_.train.steps) validate_if_due(start);
  int64_t done = start;
  while (done < config_.train.steps) {
    train_one(done);
    ++done;
    every_so_often(done);
    if (must_stop() && done < config_.train.steps) {
      interrupt(done);
      break;
    }
  }
  result_.steps = done;
  if (!result_.interrupted) finish();
  observer_.finished(result_);
  return result_;
}

}  // namespace ng
