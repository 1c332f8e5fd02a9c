// The files of a checkpoint with its tensors: what all ranks have alike in one, and beside it one
// of each rank with the rows that it alone has. Any number of ranks reads them.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors.h"
#include "run/run.h"

namespace ng {

/// The file of a checkpoint with what is not of one rank alone: of a run on one rank, all.
inline constexpr std::string_view kStateFile = "state.safetensors";

/// "state-2-of-4.safetensors", counted from 1.
[[nodiscard]] std::string rank_state_file(int rank, int ranks);

/// What the next step depends on, by the register, of this rank alone or else of all.
[[nodiscard]] std::vector<const Persistent*> saved_rows(const Run& run, bool own);
/// The same as it is written: into the file of this rank what it alone has, and what it has a part
/// of in its tensor group where it is the first of those with that part; into that of all the rest.
[[nodiscard]] std::vector<const Persistent*> rows_to_write(const Run& run, bool own);

/// Those tensors as they are stored; rows of a tensor that has more as "name[first:last]", some of
/// its columns as "name[first:last,first:last]".
void write_state(const Run& run, const std::vector<const Persistent*>& rows,
                 const std::string& path);

/// All state files of a checkpoint.
class StateFiles {
 public:
  /// Throws Error where a file is damaged.
  explicit StateFiles(const std::string& folder);

  /// Fills a tensor, or rows of one, however many ranks wrote it. Throws Error where rows are
  /// missing, or are not stored as this.
  void read_into(Run& run, const Persistent& row) const;
  /// Whether they have a tensor of that name that is stored as this, which no ranks divide.
  [[nodiscard]] bool has_as_stored(const Persistent& row) const;

 private:
  /// Rows and columns of a tensor; `cols` 0: all that there are.
  struct Part {
    int64_t first_row, rows, first_col, cols;
    const io::SafetensorsEntry* entry;
  };
  void read_place(Run& run, const Persistent& row, const CutPiece& place) const;
  void require_as_stored(const Persistent& row, const Part& part, int64_t cols) const;

  std::deque<io::Safetensors> files_;
  std::map<std::string, std::vector<Part>> parts_;  // by tensor, from its first row on
};

}  // namespace ng
