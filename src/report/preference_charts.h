// What a run on pairs of a chosen and a rejected completion learns.
#pragma once

#include "report/history.h"
#include "report/page.h"

namespace ng::report {

/// Margins, accuracies, rewards and log-probabilities over the steps, by TRL's names.
[[nodiscard]] Section preference_section(const History& history);

}  // namespace ng::report
