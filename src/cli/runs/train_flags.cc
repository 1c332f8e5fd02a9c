#include "cli/runs/train_flags.h"

#include "train/run_folder.h"

namespace ng::cli {

void TrainFlags::declare(Flags flags) {
  run.declare(flags);
  flags.option("--out", out, "folder of the run; else runs/NAME, runs/NAME-2, ...")
      .type_name("DIR");
  flags.flag("--resume", resume,
             "go on from the newest whole checkpoint in --out, or in the newest runs/NAME");
}

std::string TrainFlags::folder() const {
  if (!out.empty()) return out;
  return resume ? newest_run_folder(run.file) : new_run_folder(run.file);
}

}  // namespace ng::cli
