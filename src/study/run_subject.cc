#include "study/run_subject.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"

namespace ng::study {

RunConfig load_run(std::string_view study, const std::string& folder) {
  if (folder.empty())
    throw Error({.place = fmt::format("study {}", study),
                 .key = "RUN",
                 .problem = "no run is named",
                 .remedy = "the folder of a run: run.toml, checkpoints/"});
  const std::string file = join_path(folder, "run.toml");
  if (is_file(file)) return RunConfig::load(file);
  throw Error({.place = folder,
               .key = "",
               .problem = is_folder(folder) ? "holds no run.toml" : "no such folder",
               .remedy = "the folder of a run: run.toml, checkpoints/"});
}

}  // namespace ng::study
