// What a run measures on its validation part.
#pragma once

#include <functional>
#include <optional>

#include "data/training_data.h"
#include "train/metrics.h"
#include "train/trainer.h"

namespace ng {

/// Of the whole validation part, in batches of the trainer's size, each rank its own; the step is
/// left open. Nothing where `stops` ended it, which says the same on all ranks. The same on all
/// ranks, and for any number of them.
[[nodiscard]] std::optional<ValidationMetrics> validation_of(const TrainingData& data,
                                                             Trainer& trainer, Comm& comm,
                                                             const std::function<bool()>& stops);

}  // namespace ng
