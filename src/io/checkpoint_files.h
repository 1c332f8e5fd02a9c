// Checkpoint folders that survive anything: `<run>/checkpoints/step-NNNNNNNN/` holds named files
// and a manifest with the size and checksum of each. Written under a temporary name, synced,
// renamed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace ng::io {

/// Fills one checkpoint; nothing of it is seen before publish().
class CheckpointWriter {
 public:
  /// `folder` is the run's `checkpoints`; made when missing. `step` is in [0, 10^8).
  CheckpointWriter(const std::string& folder, int64_t step);

  /// Where files are written until publish().
  [[nodiscard]] const std::string& folder() const { return writer_.path(); }
  /// Where to write the file called `name` (no slash), by base/files or write_safetensors.
  [[nodiscard]] std::string path_of(std::string_view name) const;
  void write_text(std::string_view name, std::string_view content);

  /// Writes the manifest over all files there, makes the checkpoint appear and returns its path. A
  /// checkpoint of the same step is replaced.
  std::string publish();

 private:
  int64_t step_;
  std::string final_path_;
  FolderWriter writer_;
};

/// A checkpoint folder, whole or not.
struct CheckpointEntry {
  int64_t step = 0;
  std::string path;
};

/// All checkpoints of a folder by their names, newest first; none where the folder is missing.
[[nodiscard]] std::vector<CheckpointEntry> list_checkpoints(const std::string& folder);

/// Reads every byte. Throws Error naming the file that is missing, has another size or another
/// checksum, or was added later.
void verify_checkpoint(const CheckpointEntry& checkpoint);

/// The newest checkpoint that verifies, of at most `most` steps; none where there is no whole one.
/// `damaged` hears about each one that is passed over. Throws SystemError where one cannot be read:
/// it may be whole.
[[nodiscard]] std::optional<CheckpointEntry> newest_whole_checkpoint(
    const std::string& folder, const std::function<void(const std::string& why)>& damaged,
    int64_t most = INT64_MAX);

/// Renames a damaged checkpoint to "<its name>.damaged", where only a person looks at it.
void set_aside(const CheckpointEntry& checkpoint);

/// The same for all of later steps: damaged ones that a resume passed over, which would push whole
/// ones out.
void set_later_aside(const std::string& folder, int64_t step);

/// Removes all but the `keep` newest checkpoints and everything unfinished; a symbolic link is
/// neither removed nor counted. The caller is the folder's only writer. keep >= 1.
void prune_checkpoints(const std::string& folder, int keep);

}  // namespace ng::io
