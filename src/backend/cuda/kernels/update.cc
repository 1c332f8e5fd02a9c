#include "backend/cuda/kernels/update.h"

namespace ng::cuda {
namespace {

constexpr int kUpdateThreads = 256;

__global__ void __launch_bounds__(kUpdateThreads)
    update_each(UpdatedTensors t, OptimizerStep step, ElementCast value_cast) {
  const int64_t i = int64_t{blockIdx.x} * kUpdateThreads + threadIdx.x;
  if (i >= t.rows * t.cols) return;
  const ElementRule element(step.rule, step.numbers);
  const float g = t.grad[i] * step.grad_scale;
  const float w = t.weight != nullptr ? t.weight[i] : decode_float(value_cast.grid, t.value[i]);
  float m = t.moment1 != nullptr ? t.moment1[i] : 0.0f;
  float v = t.moment2 != nullptr ? t.moment2[i] : 0.0f;
  element.move(g, m, v);
  float x = 0;
  if (t.weight != nullptr) {
    x = element.new_weight(w, m, v, g);
    t.weight[i] = x;
  } else {
    x = w + step.numbers.lr * element.direction(w, m, v, g);
  }
  if (t.value != nullptr)
    t.value[i] = static_cast<uint16_t>(code_of(value_cast, x, i / t.cols, i % t.cols, t.cols));
  if (t.moment1 != nullptr) t.moment1[i] = m;
  if (t.moment2 != nullptr) t.moment2[i] = v;
}

}  // namespace

void update(Stream stream, const UpdatedTensors& tensors, const OptimizerStep& step,
            const ElementCast& value_cast) {
  const int64_t blocks = (tensors.rows * tensors.cols + kUpdateThreads - 1) / kUpdateThreads;
  if (blocks == 0) return;
  launch<update_each>(stream, {.grid = {static_cast<unsigned>(blocks)}, .block = {kUpdateThreads}},
                      tensors, step, value_cast);
}

}  // namespace ng::cuda
