// Where settings of a run changed and phases of its recipe begin: marks in its charts, and a table
// of the settings with both values.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/page.h"
#include "train/stretches.h"

namespace ng::report {

/// "twice, with other settings after step 30 (below): what is said here holds since then"; empty
/// where a run was not resumed.
[[nodiscard]] std::string resumed_text(std::span<const Stretch> stretches);

/// Of each stretch that begins with other settings, and of each phase that begins within one.
/// `steps` of the whole run hold where settings say epochs.
[[nodiscard]] std::vector<Mark> marks_of(std::span<const Stretch> stretches, int64_t steps);

/// A row for each setting that changed; no rows where none did.
[[nodiscard]] Section stretch_section(std::span<const Stretch> stretches);

}  // namespace ng::report
