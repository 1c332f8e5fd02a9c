#include "train/session_ranks.h"

#include "comm/agreement.h"
#include "train/run_keys.h"
#include "train/session.h"

namespace ng {

namespace {

io::CheckpointEntry checkpoint_of(const std::string& folder, int64_t step) {
  for (const io::CheckpointEntry& seen : io::list_checkpoints(folder))
    if (seen.step == step) return seen;
  throw Error(
      {.place = folder,
       .key = "",
       .problem = fmt::format("the checkpoint of step {}, which rank 0 sees, is not there", step),
       .remedy = "a folder that all ranks share"});
}

}  // namespace

std::optional<io::CheckpointEntry> newest_checkpoint_of_all(
    Comm& comm, const std::string& folder,
    const std::function<void(const std::string& why)>& damaged) {
  std::optional<io::CheckpointEntry> newest;
  std::string problem;
  on_all(comm, [&] {
    if (comm.rank() != kWriter) return;
    newest = io::newest_whole_checkpoint(folder, [&](const std::string& why) {
      damaged(why);
      problem = why;
    });
  });
  problem = first_text(comm, newest ? "" : problem);
  if (!problem.empty())
    throw SharedFailure({.place = folder,
                         .key = "",
                         .problem = "no checkpoint is whole: " + problem,
                         .remedy = "one as it was written, or another --out to start anew"});
  const int64_t step = number_of(comm, kWriter, newest ? newest->step : -1);
  if (step < 0) return {};
  on_all(comm, [&] {
    if (comm.rank() != kWriter) newest = checkpoint_of(folder, step);
  });
  return newest;
}

namespace {

// Every key has its turn, so that all ranks ask the same questions whichever keys they leave out.
// The bits do not depend on threads.
void require_same_keys(Comm& comm, RunConfig config) {
  config.train.threads = 0;
  for (const auto& key : run_keys()) {
    const std::string value = key.print(config);
    require_same(comm, "run file", value.empty() ? key.path : key.path + " = " + value);
  }
}

}  // namespace

void require_equal_inputs(Comm& comm, const RunConfig& config, const Recipe& recipe,
                          const TrainingData& data) {
  if (comm.ranks() == 1) return;
  require_same_keys(comm, config);
  require_same(comm, "recipe", recipe.hash());
  require_same(comm, "checksum of the text", data.checksum());
}

RunTraffic traffic_of(Session& session) {
  const RunTrain& train = session.config().train;
  return run_traffic(
      session.model(), session.recipe(), weight_gather(train.deterministic),
      {.ranks = session.run().ranks().world().ranks(), .tensor = train.tensor_parallel},
      session.trainer().settings(), train.recompute);
}

void require_equal_results(Comm& comm, uint64_t seed, const TrainingData& data, Trainer& trainer) {
  if (comm.ranks() == 1) return;
  const StepSettings& settings = trainer.settings();
  const BatchSpans to = trainer.evaluation_tokens();
  data.train_batch(seed, 0, {.first = 0, .count = settings.sequences, .context = settings.length},
                   to);
  double found = 0;
  if (settings.dpo) {  // its loss is ln 2 whatever the numbers are, while policy is reference
    const PreferenceSums sums = trainer.evaluate_pairs();
    found = sums.chosen + sums.rejected;
  } else {
    found = trainer.evaluate();
  }
  require_same(comm, "loss of the first batch", fmt::format("{:a}", found));
}

}  // namespace ng
