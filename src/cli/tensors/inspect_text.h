// A tensor's inspection, for people.
#pragma once

#include <string>
#include <vector>

#include "tools/format_trial.h"

namespace ng::cli {

/// Facts, histogram, table and recommendation: lines of at most 100 columns.
[[nodiscard]] std::string inspect_text(const io::SafetensorsEntry& entry, const TensorFacts& facts,
                                       const std::vector<FormatTrial>& trials);

}  // namespace ng::cli
