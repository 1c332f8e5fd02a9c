// Sections of study communication.
#pragma once

#include "study/study.h"
#include "study/written.h"

namespace ng::study {

/// Elements of a rank's gradient, a square: what the specification's figures are quoted for.
inline constexpr int64_t kGradientRows = 64, kGradientCols = 64;

/// Steps of progress of each section.
[[nodiscard]] int64_t communication_sum_steps(const Settings& settings);
[[nodiscard]] int64_t communication_scale_steps(const Settings& settings);
[[nodiscard]] int64_t communication_format_steps(const Settings& settings);

/// SNR, underflow and saturation of every way to a mean, by ranks: one section each.
[[nodiscard]] std::vector<Section> communication_sum_sections(const Settings& settings,
                                                              Progress& progress);
/// μ over a run whose gradient jumps.
[[nodiscard]] Section communication_scale_section(const Settings& settings, Progress& progress);
/// Exact sums in other formats on the wire.
[[nodiscard]] Section communication_format_section(const Settings& settings, Progress& progress);

}  // namespace ng::study
