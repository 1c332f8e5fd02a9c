// G elements/s of CPU time of what is not a GEMM, in FP32 and in BF16, beside a copy of as many
// values measured just before. CPU time, unlike time on the clock, hardly sees other work on the
// machine.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <ctime>
#include <vector>

#include "backend/cpu/ops/activation.h"
#include "backend/cpu/ops/elementwise.h"
#include "backend/cpu/ops/norm.h"

namespace ng::cpu {
namespace {

// Tokens, residual stream and hidden layer of char-gpt at 8 x 256.
constexpr int64_t kRows = 2048, kWidth = 384, kHidden = 1536;
constexpr float kEps = 1e-5f;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Tensor {
  int64_t cols;
  std::vector<float> values;

  // BF16 values, as every operation of `compute = "bf16"` writes them.
  Tensor(int64_t columns, int seed) : cols(columns), values(static_cast<size_t>(kRows * columns)) {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>((static_cast<int64_t>(i) * 37 + seed) % 101) / 32 - 1.5f;
  }
  View view() { return {values.data(), kRows, cols, cols}; }
};

struct Tensors {
  Tensor out, other, a, b, c;
  std::vector<float> gain, dgain, dbias;

  explicit Tensors(int64_t cols)
      : out(cols, 0),
        other(cols, 0),
        a(cols, 1),
        b(cols, 2),
        c(cols, 3),
        gain(static_cast<size_t>(cols), 1.001f),
        dgain(gain),
        dbias(gain) {}
  NormBackward norm_backward() {
    return {.dx = out.view(),
            .dgain = dgain.data(),
            .dbias = dbias.data(),
            .dresidual = c.view(),
            .dy = b.view(),
            .x = a.view(),
            .gain = gain.data(),
            .eps = kEps};
  }
};

using Operation = void (*)(Workspace&, Tensors&, Compute);

double copy_seconds(Tensors& t) {
  double best = 1e9;
  for (int i = 0; i < 9; ++i) {
    const double start = cpu_seconds();
    std::ranges::copy(t.a.values, t.out.values.begin());
    benchmark::DoNotOptimize(t.out.values.data());
    best = std::min(best, cpu_seconds() - start);
  }
  return best;
}

void BM_ops(benchmark::State& state, int64_t cols, Operation operation) {
  const Compute compute = state.range(0) != 0 ? Compute::bf16 : Compute::fp32;
  Tensors t(cols);
  Workspace workspace({.count = 1});
  operation(workspace, t, compute);
  const double copy = copy_seconds(t);
  double best = 1e9;
  for (auto _ : state) {
    const double start = cpu_seconds();
    operation(workspace, t, compute);
    best = std::min(best, cpu_seconds() - start);
  }
  state.counters["CPU ms"] = best * 1e3;
  state.counters["G elements/s"] = 1e-9 * static_cast<double>(kRows * cols) / best;
  state.counters["copies"] = best / copy;
}

void run_add(Workspace& w, Tensors& t, Compute compute) {
  add(w, t.out.view(), t.a.view(), t.b.view(), compute);
}
void run_layer_norm(Workspace& w, Tensors& t, Compute compute) {
  layer_norm(w, t.out.view(), t.a.view(), t.gain.data(), t.gain.data(), kEps, compute);
}
void run_layer_norm_backward(Workspace& w, Tensors& t, Compute compute) {
  layer_norm_backward(w, t.norm_backward(), compute);
}
void run_gelu(Workspace& w, Tensors& t, Compute compute) {
  gelu(w, t.out.view(), t.a.view(), Gelu::tanh, compute);
}
void run_gelu_backward(Workspace& w, Tensors& t, Compute compute) {
  gelu_backward(w, t.out.view(), t.b.view(), t.a.view(), Gelu::tanh, compute);
}
void run_swiglu(Workspace& w, Tensors& t, Compute compute) {
  swiglu(w, t.out.view(), t.a.view(), t.b.view(), compute);
}
void run_swiglu_backward(Workspace& w, Tensors& t, Compute compute) {
  swiglu_backward(w, t.out.view(), t.other.view(), t.c.view(), t.a.view(), t.b.view(), compute);
}

#define NG_OPS_BENCH(name, cols) \
  BENCHMARK_CAPTURE(BM_ops, name, cols, run_##name)->ArgName("bf16")->Arg(0)->Arg(1)->MinTime(0.3)
NG_OPS_BENCH(add, kWidth);
NG_OPS_BENCH(layer_norm, kWidth);
NG_OPS_BENCH(layer_norm_backward, kWidth);
NG_OPS_BENCH(gelu, kHidden);
NG_OPS_BENCH(gelu_backward, kHidden);
NG_OPS_BENCH(swiglu, kHidden);
NG_OPS_BENCH(swiglu_backward, kHidden);

}  // namespace
}  // namespace ng::cpu
