#include "train/validation.h"

#include <span>
#include <vector>

#include "infer/evaluate.h"

namespace ng {
namespace {

// Sums of batches, each of one rank, added in the order of batches.
std::optional<PreferenceSums> sum_of_pairs(const TrainingData& data, Trainer& trainer, Comm& comm,
                                           const std::function<bool()>& stops) {
  static_assert(sizeof(PreferenceSums) % sizeof(double) == 0);
  const int64_t batch = trainer.settings().sequences, length = trainer.settings().length;
  const int64_t sequences = data.validation_windows(length);
  PreferenceSums sum;
  for (int64_t first = 0; first < sequences; first += batch * comm.ranks()) {
    if (stops()) return {};
    std::vector<PreferenceSums> sums(static_cast<size_t>(comm.ranks()));  // others' are 0
    if (const int64_t own = first + comm.rank() * batch; own < sequences) {
      const BatchSpans to = trainer.evaluation_tokens();
      data.validation_batch({.first = own, .count = batch, .context = length}, to);
      sums[static_cast<size_t>(comm.rank())] = trainer.evaluate_pairs();
    }
    comm.sum(std::span(reinterpret_cast<double*>(sums.data()),
                       sums.size() * sizeof(PreferenceSums) / sizeof(double)));
    for (const PreferenceSums& of_batch : sums) sum += of_batch;
  }
  return sum;
}

}  // namespace

std::optional<ValidationMetrics> validation_of(const TrainingData& data, Trainer& trainer,
                                               Comm& comm, const std::function<bool()>& stops) {
  ValidationMetrics metrics;
  metrics.phase = trainer.phase();
  if (trainer.settings().dpo) {
    const std::optional<PreferenceSums> sums = sum_of_pairs(data, trainer, comm, stops);
    if (!sums) return {};
    metrics.loss = sums->loss / sums->pairs;
    metrics.preferences = metrics_of(*sums);
    return metrics;
  }
  const BatchSpans to = trainer.evaluation_tokens();
  const std::optional<Evaluation> evaluation =
      evaluate_windows(data, to, trainer.settings().sequences, comm,
                       [&] { return trainer.evaluate(); }, {.stops = stops, .progress = {}});
  if (!evaluation) return {};
  metrics.loss = evaluation->loss;
  metrics.bits_per_byte = evaluation->bits_per_byte;
  return metrics;
}

}  // namespace ng
