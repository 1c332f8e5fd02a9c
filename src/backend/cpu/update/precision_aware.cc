// The norms that the search for a precision-aware step asks for, several in one pass over the
// tensors. A sample of the values foretells which it will ask for; what it finds is what the
// definition finds. [backend/step_search.h]
#include <algorithm>
#include <cmath>

#include "backend/cpu/update/updater.h"

namespace ng::cpu {

// w and u of a stretch, in b.w and b.u.
void Updater::find_direction_of(const Stretch& at, const ChunkJob* job, StretchBuffers& b) const {
  if (job != nullptr && at.count % kChunk == 0)
    find_direction(*job, at.col, at.count, kChunk, b.chunk, b.w, b.u);
  else
    compute(at, b);
}

void Updater::add_probes(const Stretch& at, const ChunkJob* job, StretchBuffers& b,
                         std::span<const float> alphas, double* squares) const {
  if (job != nullptr) return add_moved_squares(job->value, b.w, b.u, at.count, alphas, squares);
  for (size_t i = 0; i < alphas.size(); ++i) {
    make_x(at, b, alphas[i]);
    round_value(at, b);
    squares[i] += squared_distance(b.rounded, b.w, at.count);
  }
}

// f(alphas), and ‖u‖.
double Updater::norms_at(const ChunkJob* job, std::span<const float> alphas,
                         std::span<double> norms) const {
  const int64_t items = walk_.items();
  NG_CHECK(alphas.size() <= kProbes, alphas.size());
  parallel_for(workspace_.threads(), items, [&](int64_t item, int worker) {
    auto& b = *reinterpret_cast<StretchBuffers*>(workspace_.worker(worker).data());
    double sums[kProbes + 1] = {};
    walk_.for_item(item, [&](const Stretch& at) {
      find_direction_of(at, job, b);
      sums[kProbes] += sum_of_squares(b.u, at.count);
      add_probes(at, job, b, alphas, sums);
    });
    std::copy_n(sums, kProbes + 1, sums_ + item * static_cast<int64_t>(kProbes + 1));
  });
  const auto total = [&](size_t i) {
    double sum = 0;
    for (int64_t item = 0; item < items; ++item)
      sum += sums_[static_cast<size_t>(item) * (kProbes + 1) + i];
    return std::sqrt(sum);
  };
  for (size_t i = 0; i < alphas.size(); ++i) norms[i] = total(i);
  return total(kProbes);
}

// The first values of some chunks, evenly spread.
StepSample Updater::take_sample(const ChunkJob& job) const {
  StepSample sample{.w = sampled_, .u = sampled_ + kSampled};
  const int64_t chunks = op_.grad.size() / kChunk;
  if (chunks == 0) return sample;
  sample.count = std::clamp<int64_t>(kSampled / chunks / 16 * 16, 16, kChunk);
  sample.runs = std::min(chunks, kSampled / sample.count);
  parallel_for(workspace_.threads(), sample.runs, [&](int64_t run, int worker) {
    auto& b = *reinterpret_cast<StretchBuffers*>(workspace_.worker(worker).data());
    find_direction(job, run * chunks / sample.runs * kChunk, kChunk, sample.count, b.chunk,
                   sample.w + run * sample.count, sample.u + run * sample.count);
  });
  return sample;
}

void Updater::find_step() {
  if (op_.weight.search == StepSearch::printed) return find_printed_step();
  const float lr = op_.numbers.lr;
  const auto search_for = [&](double target) {
    return ForeseenSearch(lr, target, op_.weight.rtol, op_.weight.max_iters);
  };
  const std::optional<ChunkJob> chunks = chunk_job(Pass::probes);
  const ChunkJob* const job = chunks ? &*chunks : nullptr;
  const StepSample sample = job != nullptr ? take_sample(*job) : StepSample{};
  const auto sampled = [&](float alpha) {
    double squares = 0;
    add_moved_squares(job->value, sample.w, sample.u, sample.size(), {&alpha, 1}, &squares);
    return std::sqrt(squares);
  };
  const double sampled_target = lr * std::sqrt(sum_of_squares(sample.u, sample.size()));
  const bool foretells = sampled_target > 0;
  ForeseenSearch::Alphas first;
  if (foretells) first = search_for(sampled_target).foretold(sampled);
  std::array<double, kProbes> found{};
  const double target = lr * norms_at(job, first.span(), found);
  step_ = 0;
  if (!(target > 0)) return;
  ForeseenSearch search = search_for(target);
  search.remember(first, found);
  const auto norms = [&](std::span<const float> alphas, std::span<double> to) {
    (void)norms_at(job, alphas, to);
  };
  const auto estimate = [&](float alpha) { return sampled(alpha) * (target / sampled_target); };
  step_ = foretells ? search.find(norms, estimate) : search.find(norms);
}

// A pass for each try: nobody trains so.
void Updater::find_printed_step() {
  const std::optional<ChunkJob> chunks = chunk_job(Pass::probes);
  const ChunkJob* const job = chunks ? &*chunks : nullptr;
  const double length = norms_at(job, {}, {}), target = op_.numbers.lr * (length * length);
  const auto norm_at = [&](const StepProbe& probe) {
    double norm = 0;
    (void)norms_at(job, {&probe.alpha, 1}, {&norm, 1});
    return norm;
  };
  step_ = target > 0
              ? search_step_as_printed(norm_at, target, op_.weight.rtol, op_.weight.max_iters)
              : 0;
}

}  // namespace ng::cpu
