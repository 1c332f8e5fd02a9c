// The roundings of a number as text and as JSON.
#pragma once

#include <string>

#include "base/json_fwd.h"
#include "format/rounding_steps.h"

namespace ng::cli {

/// `typed`: decimal, hexadecimal ("0x1.8p-3"), "inf" or "nan"; rounded once to FP32. Throws Error
/// where it is no such number or lies beyond FP32.
[[nodiscard]] float parse_value(const std::string& typed);

/// The steps of a number that was typed so.
[[nodiscard]] std::string text_of(const std::string& typed, const RoundingSteps& steps);
[[nodiscard]] Json json_of(const std::string& typed, const RoundingSteps& steps);

}  // namespace ng::cli
