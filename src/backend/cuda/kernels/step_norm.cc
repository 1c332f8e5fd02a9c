// f(α) = ‖RN(w + αu) - w‖ of a whole tensor, by one block of threads: thread i adds values i, i +
// 256, ... in FP64, and the threads' sums are folded by halves. `ref` adds them in their order;
// what the search finds differs only where a norm lies within its FP64 roundings of another.
#include "backend/cuda/kernels/step_norm.h"

namespace ng::cuda {
namespace {

constexpr int kNormThreads = 256;

struct StepJob {
  UpdateEach<UpdateWay::rounded> update;
  int64_t rows;
  float rtol;
  int max_iters;
  StepSearch search;
  float* alpha;

  /// ‖RN(w + αu) - w‖; `is_length`: ‖u‖.
  [[nodiscard]] __device__ double part(float step, bool is_length) const {
    const StoredTensor& value = update.t.value;
    double sum = 0;
    for (int64_t i = threadIdx.x; i < rows * value.cols; i += kNormThreads) {
      const int64_t row = i / value.cols, col = i % value.cols;
      const MovedWeight at = update.moved(row, col);
      const float x = at.w + step * at.u;
      const float off = value.value(value.code(row, col, x)) - at.w;
      const double term = is_length ? at.u : off;
      sum += term * term;
    }
    return sum;
  }
};

__global__ void __launch_bounds__(kNormThreads, 1) search_for_step(StepJob job) {
  NG_SHARED(double, sums, kNormThreads);
  const int thread = static_cast<int>(threadIdx.x);
  const auto norm = [&](float step, bool is_length) {
    sums[thread] = job.part(step, is_length);
    __syncthreads();
    for (int half = kNormThreads / 2; half > 0; half /= 2) {
      if (thread < half) sums[thread] = sums[thread] + sums[thread + half];
      __syncthreads();
    }
    const double squares = sums[0];
    __syncthreads();
    return std::sqrt(squares);
  };
  if (skips(job.update.t.control)) return;
  const float lr = job.update.t.numbers.now().lr;
  const double length = norm(0.0f, true);
  float alpha = 0;
  if (lr * length > 0) {
    const auto norm_at = [&](const StepProbe& probe) { return norm(probe.alpha, false); };
    alpha = job.search == StepSearch::printed
                ? search_step_as_printed(norm_at, lr * (length * length), double{job.rtol},
                                         job.max_iters)
                : search_step(norm_at, lr, lr * length, double{job.rtol}, job.max_iters);
  }
  if (thread == 0) *job.alpha = alpha;
}

}  // namespace

void find_step(Stream stream, const Update& op, const UpdateTensors& t, float* alpha) {
  launch<search_for_step>(stream, {.block = {kNormThreads}},
                          StepJob{.update = {t},
                                  .rows = op.grad.rows,
                                  .rtol = op.weight.rtol,
                                  .max_iters = op.weight.max_iters,
                                  .search = op.weight.search,
                                  .alpha = alpha});
}

}  // namespace ng::cuda
