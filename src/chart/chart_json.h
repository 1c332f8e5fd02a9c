// A picture out of a file that describes it.
#pragma once

#include <string>

#include "base/json_fwd.h"
#include "chart/chart.h"

namespace ng::chart {

/// {"kind": "bars", "points" or "lines", "caption", "x_label", "y_label", "categories" (bars,
/// points) or "x" (lines), "labels", "log_x", "log_y", "from_zero", "strip", "series": [{"name",
/// "y", "error", "low", "high", "no_line", "joined"}, ...]}: members of Chart and Series by their
/// names. null is a gap. Throws Error at `place` for what is no picture.
[[nodiscard]] Chart chart_of(const Json& json, const std::string& place);

}  // namespace ng::chart
