// What a session does with the files of its folder before its first step.
#include "base/json.h"
#include "comm/agreement.h"
#include "io/checkpoint_files.h"
#include "recipe/phase_choice.h"
#include "train/run_files.h"
#include "train/run_model.h"
#include "train/session.h"
#include "train/session_ranks.h"
#include "train/session_start.h"
#include "train/stretches.h"

namespace ng {
namespace {

/// Of the run when it was saved: train.steps may have changed since.
double steps_of(const std::map<std::string, std::string>& saved, int64_t now) {
  const auto steps = saved.find("train.steps");
  return steps == saved.end() ? static_cast<double>(now) : std::stod(steps->second);
}

/// Where the phase after `step` steps is one before that of the last of them, for train.steps is
/// another; else empty.
std::string earlier_phase_text(const Recipe& recipe, int64_t step, double steps_before,
                               double steps) {
  const auto phase_at = [&](int64_t done, double all) {
    return recipe.phase_at(static_cast<double>(done) / all);
  };
  const int before = phase_at(std::max<int64_t>(step - 1, 0), steps_before);
  const int now = phase_at(step, steps);
  if (now >= before) return "";
  return fmt::format("resuming at step {} in {}, until here phase {}: train.steps was {}", step,
                     phase_of(recipe, now).text(), before, steps_before);
}

}  // namespace

RunIdentity Session::identity() const {
  return {.seed = config_.seed,
          .twin = config_.twin,
          .model = model_identity(model_->config()),
          .recipe = recipe_.hash(),
          .older_recipe = recipe_.hash_of_all_keys(),
          .data = data_->checksum(),
          .reference = reference_checksum_,
          .batch = fmt::format("{} x {} x {}", trainer_->settings().sequences,
                               trainer_->settings().length, trainer_->micros_of_all()),
          .tensor_names = model_->tensors().hash(),
          .settings = config_.update_settings(),
          .whole_recipe = recipe_,
          .takes_other_recipe = options_.takes_other_recipe,
          .older_data = [this] { return data_->older_checksum(); }};
}

void Session::take_folder() {
  if (has_folder_) return;
  on_all(world(), [&] {
    if (is_writer()) lock_folder();
  });
  has_folder_ = true;
}

void Session::lock_folder() {
  new_folders_ = std::make_unique<NewFolders>(options_.out);
  lock_ = std::make_unique<FolderLock>(options_.out);
  const bool saved = !io::list_checkpoints(checkpoints_folder()).empty();
  require_own_folder(config_, options_.out);
  const bool finished = is_folder(model_folder()) && !list_folder(model_folder()).empty();
  if ((saved || finished) && !options_.resume)
    throw Error({.place = options_.out,
                 .key = std::string(saved ? kCheckpointsFolder : kModelFolder),
                 .problem = "the folder already holds a run",
                 .remedy = "--resume to go on with it, or another --out"});
  remove_stale_temporaries(options_.out, is_run_file);
}

// Steps done so far.
int64_t Session::restore() {
  if (!options_.resume) return 0;
  const std::optional<io::CheckpointEntry> newest = newest_checkpoint_of_all(
      world(), checkpoints_folder(),
      [&](const std::string& why) { observer_.notice("skipping a damaged checkpoint: " + why); });
  if (!newest) {
    observer_.notice(options_.out + ": no checkpoint to resume from: starting at step 0");
    return 0;
  }
  on_all(world(), [&] { require_steps_left(*newest, config_.train.steps); });
  return take_up(*newest);
}

int64_t Session::take_up(const io::CheckpointEntry& checkpoint) {
  follow_phase(std::max<int64_t>(checkpoint.step - 1, 0));
  on_all(world(), [&] { saved_ = restore_checkpoint(checkpoint, *run_, identity_); });
  for (const std::string& difference : saved_.differences)
    observer_.notice(fmt::format("resuming at step {}: {}", checkpoint.step, difference));
  if (saved_.differences.empty() && !saved_.other_recipe)
    observer_.notice(fmt::format("resuming at step {}", checkpoint.step));
  const int64_t steps = config_.train.steps;
  if (saved_.other_recipe)
    carry_over(checkpoint);
  else if (const std::string earlier =
               earlier_phase_text(recipe_, checkpoint.step, steps_of(saved_.settings, steps),
                                  static_cast<double>(steps));
           !earlier.empty())
    observer_.notice(earlier);
  model_->copy_masters(*run_);
  return checkpoint.step;
}

void Session::carry_over(const io::CheckpointEntry& checkpoint) {
  const Recipe& before = *saved_.other_recipe;
  if (checkpoint.step == config_.train.steps)
    throw Error({.place = checkpoint.path,
                 .key = "recipe",
                 .problem = fmt::format("all {} steps are done in {}, none is left for {}",
                                        checkpoint.step, before.name(), recipe_.name()),
                 .remedy = "more train.steps, or the same recipe"});
  std::optional<StateFiles> files;
  on_all(world(), [&] { files.emplace(checkpoint.path); });
  const int phase = before.phase_at(static_cast<double>(checkpoint.step - 1) /
                                    steps_of(saved_.settings, config_.train.steps));
  carried_ = carry_state(*files, {before, phase}, *run_, *model_, {recipe_, trainer_->phase()},
                         trainer_->settings().optimizer);
  observer_.notice(fmt::format("resuming at step {} in the numbers of {}, until here {}: {}",
                               checkpoint.step, recipe_.name(), before.name(),
                               carried_text(*carried_)));
}

// What is new after `start` steps, which the newest checkpoint and earlier stretches tell of.
Json Session::changes_at(int64_t start, const std::vector<Stretch>& earlier,
                         const Json& now) const {
  if (start == 0) return Json::object();
  const Recipe& before = saved_.other_recipe ? *saved_.other_recipe : recipe_;
  return changed_settings(settings_before(earlier, start, saved_.settings, before, now), now);
}

// After `start` steps: metrics.jsonl goes on there, run.toml says what holds from here on.
void Session::begin_files(int64_t start) {
  if (options_.resume) io::set_later_aside(checkpoints_folder(), start);
  const std::string metrics = join_path(options_.out, kMetricsFile);
  std::vector<Stretch> stretches = read_stretches(metrics);
  std::erase_if(stretches, [&](const Stretch& stretch) { return stretch.first > start; });
  const Json now = settings_of(config_, recipe_, world().ranks());
  Json event = {{"settings", now}};
  if (carried_) event["carried"] = carried_json(*carried_);
  if (options_.resume) event["changed"] = changes_at(start, stretches, now);
  add_stretch(stretches, {start, now, event.value("changed", Json::object())});
  // First, for by run.toml a folder is known as a run's.
  write_file_atomically(join_path(options_.out, kRunFile),
                        run_file_text(config_, recipe_, history_text(stretches)));
  log_ = std::make_unique<MetricsFile>(metrics, start,
                                       [&](const std::string& text) { observer_.notice(text); });
  log_->set_listener([&](const Json& line) { observer_.line(line); });
  log_->event(options_.resume ? "resume" : "start", start, event);
  log_->event("data", start, data_event(*data_, likeness_));
  log_->event("memory", start,
              memory_event(trainer_->memory(), memory_in_fp32_, model_->parameter_count()));
  if (world().ranks() > 1) log_->event("traffic", start, traffic_event(traffic_of(*this)));
}

}  // namespace ng
