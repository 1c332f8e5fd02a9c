// The norms that the search for a precision-aware step asks for, several in one pass over the
// tensors. A sample of the values foretells which it will ask for; what it finds is what the
// definition finds. [backend/step_search.h]
#include <algorithm>
#include <cmath>

#include "backend/cpu/update/search.h"
#include "backend/cpu/update/updater.h"

namespace ng::cpu {

// w and u of a stretch, in b.w and b.u.
void Updater::find_direction_of(const Stretch& at, const ChunkJob* chunks,
                                StretchBuffers& b) const {
  if (chunks != nullptr && at.count % kChunk == 0)
    find_direction(*chunks, at.col, at.count, b.chunk, b.w, b.u);
  else
    compute(at, b);
}

void Updater::norms_at(std::span<const float> alphas, std::span<double> norms) const {
  const std::optional<ChunkJob> chunks = chunk_job(Pass::probes);
  const ChunkJob* const job = chunks ? &*chunks : nullptr;
  const int64_t items = walk_.items();
  NG_CHECK(alphas.size() <= kProbes, alphas.size());
  parallel_for(workspace_.threads(), items, [&](int64_t item, int worker) {
    auto& b = *reinterpret_cast<StretchBuffers*>(workspace_.worker(worker).data());
    double sums[kProbes] = {};
    walk_.for_item(item, [&](const Stretch& at) {
      find_direction_of(at, job, b);
      for (size_t i = 0; i < alphas.size(); ++i) {
        if (job != nullptr) {
          sums[i] += moved_squares(job->value, b.w, b.u, alphas[i], at.count);
          continue;
        }
        make_x(at, b, alphas[i]);
        round_value(at, b);
        sums[i] += squared_distance(b.rounded, b.w, at.count);
      }
    });
    std::copy_n(sums, alphas.size(), sums_ + static_cast<size_t>(item) * kProbes);
  });
  for (size_t i = 0; i < alphas.size(); ++i) {
    double sum = 0;
    for (int64_t item = 0; item < items; ++item)
      sum += sums_[static_cast<size_t>(item) * kProbes + i];
    norms[i] = std::sqrt(sum);
  }
}

// The sample: the first values of every item.
double Updater::norm_of_direction(StepSample& sample) const {
  const std::optional<ChunkJob> chunks = chunk_job(Pass::probes);
  const int64_t items = walk_.items();
  sample.count = std::min<int64_t>(kStretch, std::max<int64_t>(16, kSampled / items / 16 * 16));
  sample.items = std::min(items, kSampled / sample.count);
  parallel_for(workspace_.threads(), items, [&](int64_t item, int worker) {
    auto& b = *reinterpret_cast<StretchBuffers*>(workspace_.worker(worker).data());
    double sum = 0;
    bool is_first = true;
    walk_.for_item(item, [&](const Stretch& at) {
      find_direction_of(at, chunks ? &*chunks : nullptr, b);
      sum += sum_of_squares(b.u, at.count);
      // Evenly spread where there are more items than places.
      const int64_t place = item * sample.items / items;
      if (is_first && (place * items + sample.items - 1) / sample.items == item)
        sample.put(place, b.w, b.u, at.count);
      is_first = false;
    });
    sums_[item] = sum;
  });
  double sum = 0;
  for (int64_t item = 0; item < items; ++item) sum += sums_[item];
  return std::sqrt(sum);
}

void Updater::find_step() {
  const float lr = op_.numbers.lr;
  StepSample sample{.w = sampled_, .u = sampled_ + kSampled};
  const double target = lr * norm_of_direction(sample);
  step_ = 0;
  if (!(target > 0)) return;
  const std::optional<ChunkJob> chunks = chunk_job(Pass::probes);
  const double sampled = lr * std::sqrt(sample.sum([&](const float*, const float* u, int64_t n) {
                           return sum_of_squares(u, n);
                         }));
  const auto estimate = [&](float alpha) {
    const double squares = sample.sum([&](const float* w, const float* u, int64_t n) {
      return moved_squares(chunks->value, w, u, alpha, n);
    });
    return std::sqrt(squares) * (target / sampled);
  };
  StepSearch search(lr, target, op_.weight.rtol, op_.weight.max_iters);
  const auto norms = [&](std::span<const float> alphas, std::span<double> to) {
    norms_at(alphas, to);
  };
  step_ = chunks && sampled > 0 ? search.find(norms, estimate) : search.find(norms);
}

}  // namespace ng::cpu
