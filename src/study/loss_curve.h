// What the losses of a training run say of its stability.
#pragma once

#include <cstdint>
#include <span>

namespace ng::study {

inline constexpr double kSpikeWeight = 1.0 / 16;  ///< of a loss in its moving average
inline constexpr double kSpikeDeviations = 5;     ///< that a spike exceeds the average by

/// Mean of the last tenth of the losses, of one at least; NaN where there are none.
[[nodiscard]] double final_loss(std::span<const double> losses);

struct LossSpikes {
  int64_t count = 0;     ///< steps
  double largest = 0;    ///< excess over the average, nats; 0 where no loss exceeds it
  double deviation = 0;  ///< robust standard deviation of the excesses, nats
};

/// The excess of step t is e = loss - m, m the weighted moving average of the losses before it
/// (m = the first loss, then m ← m + (loss - m)/16). Of the steps from `first` on, those are spikes
/// whose excess is above five robust deviations, 5 · 1.4826 · median|e - median e|. Losses that are
/// not finite are no part of any of this: their steps were skipped.
[[nodiscard]] LossSpikes loss_spikes(std::span<const double> losses, int64_t first);

/// Whether a loss from step `first` on is above that of step 0.
[[nodiscard]] bool exceeds_start(std::span<const double> losses, int64_t first);

/// The largest over the median: NaN where there are none.
[[nodiscard]] double largest_over_median(std::span<const double> values);

}  // namespace ng::study
