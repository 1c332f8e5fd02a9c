// G elements/s of CPU time of what is not a GEMM, stored as FP32 and as BF16, beside a copy of as
// many values stored so measured just before. CPU time, unlike time on the clock, hardly sees other
// work on the machine.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <ctime>
#include <type_traits>
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

template <class Stored>
struct Tensor {
  int64_t cols;
  std::vector<Stored> values;

  Tensor(int64_t columns, int seed) : cols(columns), values(static_cast<size_t>(kRows * columns)) {
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t step = (static_cast<int64_t>(i) * 37 + seed) % 101;
      const float value = static_cast<float>(step) / 32 - 1.5f;  // BF16 holds it
      if constexpr (std::is_same_v<Stored, Bf16>)
        values[i] = to_bf16(value);
      else
        values[i] = value;
    }
  }
  Rows<Stored> view() { return {values.data(), kRows, cols, cols}; }
};

template <class Stored>
struct Tensors {
  Tensor<Stored> out, other, a, b, c;
  std::vector<float> gains, dgains, dbiases;

  explicit Tensors(int64_t cols)
      : out(cols, 0),
        other(cols, 0),
        a(cols, 1),
        b(cols, 2),
        c(cols, 3),
        gains(static_cast<size_t>(cols), 1.001f),
        dgains(gains),
        dbiases(gains) {}
  View line(std::vector<float>& values) { return {values.data(), 1, a.cols, a.cols}; }
};

double best_of(int times, const auto& work) {
  double best = 1e9;
  for (int i = 0; i < times; ++i) {
    const double start = cpu_seconds();
    work();
    best = std::min(best, cpu_seconds() - start);
  }
  return best;
}

template <class Stored>
void measure(benchmark::State& state, int64_t cols, const auto& operation) {
  Tensors<Stored> t(cols);
  Workspace workspace({.count = 1});
  operation(workspace, t);
  const double copy = best_of(9, [&] {
    std::ranges::copy(t.a.values, t.out.values.begin());
    benchmark::DoNotOptimize(t.out.values.data());
  });
  double best = 1e9;
  for (auto _ : state) best = std::min(best, best_of(1, [&] { operation(workspace, t); }));
  state.counters["CPU ms"] = best * 1e3;
  state.counters["G elements/s"] = 1e-9 * static_cast<double>(kRows * cols) / best;
  state.counters["copies"] = best / copy;
}

void BM_ops(benchmark::State& state, int64_t cols, const auto& operation) {
  if (state.range(0) != 0)
    measure<Bf16>(state, cols, operation);
  else
    measure<float>(state, cols, operation);
}

const auto run_add = [](Workspace& w, auto& t) {
  perform(w, Add{.y = t.out.view(), .a = t.a.view(), .b = t.b.view()});
};
const auto run_layer_norm = [](Workspace& w, auto& t) {
  perform(w, Norm{.kind = NormKind::layer,
                  .y = t.out.view(),
                  .x = t.a.view(),
                  .gain = t.line(t.gains),
                  .bias = t.line(t.gains),
                  .eps = kEps});
};
const auto run_layer_norm_backward = [](Workspace& w, auto& t) {
  perform(w, NormBackward{.kind = NormKind::layer,
                          .dx = t.out.view(),
                          .dgain = t.line(t.dgains),
                          .dbias = t.line(t.dbiases),
                          .dresidual = t.c.view(),
                          .dy = t.b.view(),
                          .x = t.a.view(),
                          .gain = t.line(t.gains),
                          .eps = kEps});
};
const auto run_gelu = [](Workspace& w, auto& t) {
  perform(w, Gelu{.y = t.out.view(), .x = t.a.view()});
};
const auto run_gelu_backward = [](Workspace& w, auto& t) {
  perform(w, GeluBackward{.dx = t.out.view(), .dy = t.b.view(), .x = t.a.view()});
};
const auto run_swiglu = [](Workspace& w, auto& t) {
  perform(w, Swiglu{.y = t.out.view(), .gate = t.a.view(), .up = t.b.view()});
};
const auto run_swiglu_backward = [](Workspace& w, auto& t) {
  perform(w, SwigluBackward{.dgate = t.out.view(),
                            .dup = t.other.view(),
                            .dy = t.c.view(),
                            .gate = t.a.view(),
                            .up = t.b.view()});
};

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
