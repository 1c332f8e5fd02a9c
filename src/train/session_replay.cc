// A session that goes back to where its run was.
#include <algorithm>

#include "io/checkpoint_files.h"
#include "train/session.h"

namespace ng {

int64_t Session::replay_to(int64_t step) {
  identity_ = identity();
  const std::optional<io::CheckpointEntry> checkpoint = io::newest_whole_checkpoint(
      checkpoints_folder(),
      [&](const std::string& why) { observer_.notice("skipping a damaged checkpoint: " + why); },
      step);
  const int64_t first = checkpoint ? take_up(*checkpoint) : 0;
  for (int64_t done = first; done < step; ++done) train_one(done);
  return first;
}

}  // namespace ng
