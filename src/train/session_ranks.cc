#include "train/session_ranks.h"

#include <span>

#include "base/checksum.h"
#include "comm/agreement.h"
#include "comm/launch.h"

namespace ng {

std::optional<io::CheckpointEntry> newest_checkpoint_of_all(
    Comm& comm, const std::string& folder,
    const std::function<void(const std::string& why)>& damaged) {
  std::optional<io::CheckpointEntry> newest;
  if (comm.rank() == kWriter) newest = io::newest_whole_checkpoint(folder, damaged);
  const int64_t step = number_of(comm, kWriter, newest ? newest->step : -1);
  if (step < 0 || comm.rank() == kWriter) return newest;
  for (const io::CheckpointEntry& seen : io::list_checkpoints(folder))
    if (seen.step == step) return seen;
  throw Error(
      {.place = folder,
       .key = "",
       .problem = fmt::format("rank {} does not see the checkpoint of step {}", comm.rank(), step),
       .remedy = "a folder that all ranks share"});
}

void require_equal_inputs(Comm& comm, const RunConfig& config, const Recipe& recipe,
                          const TrainingData& data) {
  if (comm.ranks() == 1) return;
  const std::string keys = config.resolved_toml();
  require_same(comm, "checksum of the run file", checksum_of(std::as_bytes(std::span(keys))));
  require_same(comm, "recipe", recipe.hash());
  require_same(comm, "checksum of the text", data.checksum());
}

void require_equal_results(Comm& comm, uint64_t seed, const TrainingData& data, Trainer& trainer) {
  if (comm.ranks() == 1) return;
  const StepSettings& settings = trainer.settings();
  const BatchSpans to = trainer.evaluation_tokens();
  data.train_batch(seed, 0, {.first = 0, .count = settings.sequences, .context = settings.length},
                   {.inputs = to.inputs, .targets = to.targets, .mask = to.mask});
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
