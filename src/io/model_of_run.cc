#include "io/model_of_run.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "io/checkpoint_files.h"

namespace ng::io {

std::string model_path(const std::string& named) {
  const bool is_run =
      is_file(join_path(named, "run.toml")) && !is_file(join_path(named, "config.json"));
  if (!is_run) return named;
  std::string model = join_path(named, "model");
  if (is_folder(model)) return model;
  const std::vector<CheckpointEntry> checkpoints =
      list_checkpoints(join_path(named, "checkpoints"));
  throw Error({.place = named,
               .problem = fmt::format(
                   "a run that has no model/ yet: it is written where the run ends{}",
                   checkpoints.empty()
                       ? ""
                       : fmt::format(", and its checkpoints, of step {} at last, are no models",
                                     checkpoints.front().step)),
               .remedy = fmt::format("train RUN.toml --out {} --resume, to its end", named)});
}

}  // namespace ng::io
