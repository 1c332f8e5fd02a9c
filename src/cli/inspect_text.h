// A tensor's inspection, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "cli/inspect_tensor.h"

namespace ng::cli {

/// Facts, histogram, table and recommendation: lines of at most 100 columns.
[[nodiscard]] std::string inspect_text(const io::SafetensorsEntry& entry, const TensorFacts& facts,
                                       const std::vector<FormatTrial>& trials);

[[nodiscard]] Json inspect_json(const io::SafetensorsEntry& entry, const TensorFacts& facts,
                                const std::vector<FormatTrial>& trials);

/// What a format does to |x| in [2^e, 2^(e+1)): '^' above its largest value, 'N' normal in every
/// block, 'n' in some, 's' subnormal, '0' rounds to zero.
[[nodiscard]] char binade_state(const FormatTrial& trial, int e);

}  // namespace ng::cli
