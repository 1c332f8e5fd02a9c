// Words for tensors and for what formats made of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json_fwd.h"

namespace ng::cli {

/// "(8, 33)"
[[nodiscard]] std::string shape_text(const std::vector<int64_t>& shape);
/// "1.25 %", "<.01 %"; share from 0 to 1.
[[nodiscard]] std::string percent_text(double share);
/// "23.85", "exact" without error, "NaN".
[[nodiscard]] std::string decibel_text(double sqnr_db);

/// The same of JSON, for columns of tables.
[[nodiscard]] std::string percent_cell(const Json& share);
[[nodiscard]] std::string decibel_cell(const Json& sqnr_db);

/// A notice about a file's tensors that are no floats and were skipped.
void note_skipped(const std::string& path, const std::vector<std::string>& names);

}  // namespace ng::cli
