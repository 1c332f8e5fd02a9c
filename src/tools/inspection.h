// A tensor's inspection, for programs: what its values are like and what formats make of them.
#pragma once

#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "tools/format_trial.h"

namespace ng {

/// Formats that are tried where nobody says which.
inline constexpr std::string_view kInspectedFormats =
    "fp8_e4m3,fp8_e5m2,mxfp8_e4m3,mxfp6_e3m2,mxfp6_e2m3,mxfp4,nvfp4,mxint8,int8,int4,uint8,uint4";

/// One of the "formats" or their "rules" below.
[[nodiscard]] Json trial_json(const FormatTrial& trial);

/// {"name", "dtype", "shape", facts, "binades": {exponent: count}, "formats": [{"format",
/// "scale_rule": its own, ..., "rules": [the same of each rule it has]}, ...], "recommended":
/// {level in dB: name or null}}
[[nodiscard]] Json inspection_json(const io::SafetensorsEntry& entry, const TensorFacts& facts,
                                   const std::vector<RuleTrials>& trials);

}  // namespace ng
