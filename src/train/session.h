// A whole training run: from a run file to a model folder, resumable at any moment.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/json_fwd.h"
#include "base/threads.h"
#include "data/text_likeness.h"
#include "data/training_data.h"
#include "tokenizer/tokenizer.h"
#include "train/carry_over.h"
#include "train/checkpoint.h"
#include "train/metrics.h"
#include "train/run_config.h"
#include "train/session_clock.h"
#include "train/trainer.h"

namespace ng::io {
struct ModelSettings;
}

namespace ng {

class Session;
struct SessionResult;

/// Hears what a run does while it does it; the program prints, the library does not.
class SessionObserver {
 public:
  virtual ~SessionObserver() = default;
  /// A sentence the user should read: a damaged checkpoint, a recipe's warning.
  virtual void notice(const std::string&) {}
  /// While texts are opened: `done` of all their bytes have been read. May throw to end that.
  virtual void reading(int64_t /*done*/, int64_t /*bytes*/) {}
  /// Before the first step: `step` are done, metrics.jsonl holds their lines and no others.
  virtual void started(Session&, int64_t /*step*/) {}
  virtual void step(const StepMetrics&) {}
  virtual void validation(const ValidationMetrics&) {}
  virtual void checkpoint(int64_t /*step*/) {}
  /// A line that metrics.jsonl has got.
  virtual void line(const Json& /*object*/) {}
  /// The last step of this process is done and everything is written.
  virtual void finished(const SessionResult&) {}
};

struct SessionOptions {
  std::string out;      ///< folder of the run
  bool resume = false;  ///< go on from the newest whole checkpoint in `out`
  /// That may have a recipe of another name: its state is carried over into this run's numbers.
  bool takes_other_recipe = false;
  const std::atomic<bool>* stop =
      nullptr;           ///< set: finish the step, save, return; a validation is left off
  Comm* comm = nullptr;  ///< the ranks that train together, of which rank 0 writes; null: alone
};

struct SessionResult {
  int64_t steps = 0;                            ///< done in all
  bool interrupted = false;                     ///< `stop` was set before the last step
  int64_t skipped = 0;                          ///< steps skipped by this process
  std::optional<ValidationMetrics> validation;  ///< the last one
  TimeByKind validating{};                      ///< seconds of operations, by this process
  OperandStats noisy_weights{};                 ///< what their casts lost in the last step
  std::string sample;                           ///< generated text; empty when interrupted
                                                ///< or where no logit is finite
};

/// Thrown where so many steps in a row were not finite that the run ends.
class Diverged : public Error {
 public:
  Diverged(Parts parts, int64_t step) : Error(std::move(parts)), step_(step) {}
  /// The first of them, counted from 1.
  [[nodiscard]] int64_t step() const { return step_; }

 private:
  int64_t step_;
};

struct RunInputs;
struct Stretch;

class Session {
 public:
  /// Opens texts, recipe and model, plans and takes all memory. Throws Error for anything wrong
  /// with them; writes nothing yet.
  Session(const RunConfig& config, SessionOptions options, SessionObserver& observer);
  ~Session();

  [[nodiscard]] const RunConfig& config() const { return config_; }
  [[nodiscard]] const Recipe& recipe() const { return recipe_; }
  [[nodiscard]] Model& model() { return *model_; }
  [[nodiscard]] Run& run() { return *run_; }
  [[nodiscard]] Trainer& trainer() { return *trainer_; }
  /// What FP32 AdamW would take for the same model and batch.
  [[nodiscard]] const MemoryPlan& memory_in_fp32() const { return memory_in_fp32_; }
  [[nodiscard]] const TrainingData& data() const { return *data_; }
  [[nodiscard]] int threads() const { return threads_.count; }
  [[nodiscard]] const std::string& folder() const { return options_.out; }
  [[nodiscard]] std::string checkpoints_folder() const;
  [[nodiscard]] std::string model_folder() const;

  /// Makes the folder and locks it for this process. Throws Error where that fails, the folder
  /// holds a run that is not to be resumed, or the run would replace what it reads or what no run
  /// wrote. train() does it where nobody has.
  void take_folder();
  /// Trains to the end or until stopped. Writes run.toml, metrics.jsonl, checkpoints/ and model/.
  /// Throws Error where a file cannot be written, Diverged where nothing is finite any more.
  SessionResult train();

  // For a look at a step of a run of before, whose folder `options.out` is. Nothing is written.
  /// From its newest whole checkpoint at or before `step`, or from its beginning, to where it was
  /// after `step` steps. Returns the step of the checkpoint. Throws Error as train().
  int64_t replay_to(int64_t step);
  /// The one after `done` steps; the observer hears of it.
  void replay_step(int64_t done) { train_one(done); }

 private:
  Session(const SessionOptions& options, SessionObserver& observer, RunInputs inputs);
  /// Says what to beware of, and puts what the run file left open. Throws Error where the run
  /// cannot be trained.
  [[nodiscard]] ModelConfig checked_model();
  void lock_folder();
  /// All ranks of the run.
  [[nodiscard]] Comm& world() const { return run_->ranks().world(); }
  /// Whether this rank writes the run's files.
  [[nodiscard]] bool is_writer() const;
  int64_t restore();
  int64_t take_up(const io::CheckpointEntry& checkpoint);
  void carry_over(const io::CheckpointEntry& checkpoint);
  [[nodiscard]] Json changes_at(int64_t start, const std::vector<Stretch>& earlier,
                                const Json& now) const;
  void begin_files(int64_t start);
  void follow_phase(int64_t step);
  void fill_batches(int64_t step);
  [[nodiscard]] bool shows_every_tensor(int64_t step) const;
  void train_one(int64_t step);
  void note_skip(int64_t step, const StepReport& report);
  void require_convergence(int64_t step) const;
  void every_so_often(int64_t done);
  /// Whether any rank was asked to.
  [[nodiscard]] bool must_stop();
  [[nodiscard]] bool is_validated(int64_t done) const;
  /// Leaves off where the run must stop.
  void validate(int64_t done);
  void validate_if_due(int64_t done);
  void interrupt(int64_t done);
  void save(int64_t done);
  void finish();
  void write_results();
  void write_model(Run& run, Model& model);
  [[nodiscard]] RunIdentity identity() const;
  [[nodiscard]] std::string last_whole_state() const;

  RunConfig config_;
  SessionOptions options_;
  SessionObserver& observer_;
  Recipe recipe_;
  Threads threads_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<TrainingData> data_;
  std::optional<TextLikeness> likeness_;               // of what validates to what is trained on
  std::shared_ptr<const io::ModelSettings> settings_;  // of model.init, as training found it
  std::unique_ptr<Run> run_;
  std::unique_ptr<Model> model_, reference_;  // the latter for pairs
  std::string reference_checksum_;            // of what no checkpoint has
  std::unique_ptr<Trainer> trainer_;
  MemoryPlan memory_in_fp32_;
  std::unique_ptr<NewFolders> new_folders_;
  std::unique_ptr<FolderLock> lock_;
  bool has_folder_ = false;
  std::unique_ptr<MetricsFile> log_;  // metrics.jsonl, of the rank that writes it
  SessionClock clock_;
  SessionResult result_;
  RunIdentity identity_;
  SavedRun saved_;                       // of the checkpoint that it goes on from
  std::optional<CarriedState> carried_;  // from another recipe
  int64_t last_saved_ = 0;
  bool save_due_ = false;
  int64_t last_validated_ = -1;
  int consecutive_skips_ = 0;
  std::string origin_of_skips_, problem_of_skips_;  // "head output", "not finite"
};

}  // namespace ng
