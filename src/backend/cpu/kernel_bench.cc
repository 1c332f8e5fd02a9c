// Memory-bound kernels: GB/s and percent of a copy measured in turns with it on the same threads.
// The bytes are those every implementation must move: each input once, each output once.
#include <benchmark/benchmark.h>

#include <chrono>

#include "backend/cpu/memory.h"
#include "backend/cpu/ops/activation.h"
#include "backend/cpu/ops/cross_entropy.h"
#include "backend/cpu/ops/elementwise.h"
#include "backend/cpu/ops/norm.h"
#include "backend/cpu/ops/reduce.h"
#include "backend/cpu/ops/step.h"

namespace ng::cpu {
namespace {

// Freed with the benchmark.
class Buffer {
 public:
  Buffer(Workspace& workspace, int64_t rows, int64_t cols)
      : view_{reinterpret_cast<float*>(allocate(bytes_of(rows, cols))), rows, cols, cols} {
    fill(workspace, view_, 0.25f);
  }
  ~Buffer() { release(reinterpret_cast<std::byte*>(view_.data), bytes_of(view_.rows, view_.cols)); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  [[nodiscard]] View view() const { return view_; }

 private:
  static size_t bytes_of(int64_t rows, int64_t cols) {
    return static_cast<size_t>(rows * cols) * sizeof(float);
  }
  View view_;
};

double seconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// `kernel` moves `floats` floats a call. It takes turns with a copy of 64 MiB, so that both see the
// same neighbours; best against best.
void measure(benchmark::State& state, Workspace& workspace, int64_t floats, const auto& kernel) {
  const Buffer from(workspace, 2048, 8192), to(workspace, 2048, 8192);
  double best = 1e9, best_copy = 1e9;
  for (auto _ : state) {
    best_copy = std::min(best_copy, seconds_of([&] { copy(workspace, to.view(), from.view()); }));
    const double seconds = seconds_of(kernel);
    state.SetIterationTime(seconds);
    best = std::min(best, seconds);
  }
  const double bandwidth = static_cast<double>(floats) * sizeof(float) / best;
  const double copied = 2.0 * static_cast<double>(from.view().size()) * sizeof(float) / best_copy;
  state.counters["GB/s"] = bandwidth * 1e-9;
  state.counters["%copy"] = 100 * bandwidth / copied;
}

Threads threads() { return {available_cores()}; }

constexpr int64_t kTokens = 4096, kWidth = 3072;
constexpr int64_t kSize = kTokens * kWidth;

void bench_add(benchmark::State& state) {
  Workspace w(threads());
  const Buffer y(w, kTokens, kWidth), a(w, kTokens, kWidth), b(w, kTokens, kWidth);
  measure(state, w, 3 * kSize, [&] { add(w, y.view(), a.view(), b.view(), Compute::fp32); });
}

void bench_rms_norm(benchmark::State& state) {
  Workspace w(threads());
  const Buffer y(w, kTokens, kWidth), x(w, kTokens, kWidth), g(w, 1, kWidth);
  measure(state, w, 2 * kSize,
          [&] { rms_norm(w, y.view(), x.view(), g.view().data, 1e-5f, Compute::fp32); });
}

void bench_layer_norm(benchmark::State& state) {
  Workspace w(threads());
  const Buffer y(w, kTokens, kWidth), x(w, kTokens, kWidth), g(w, 2, kWidth);
  measure(state, w, 2 * kSize, [&] {
    layer_norm(w, y.view(), x.view(), g.view().row(0), g.view().row(1), 1e-5f, Compute::fp32);
  });
}

void bench_layer_norm_backward(benchmark::State& state) {
  Workspace w(threads());
  const Buffer dx(w, kTokens, kWidth), dy(w, kTokens, kWidth), x(w, kTokens, kWidth),
      g(w, 3, kWidth);
  const NormBackward args{.dx = dx.view(),
                          .dgain = g.view().row(1),
                          .dbias = g.view().row(2),
                          .dresidual = dx.view(),
                          .dy = dy.view(),
                          .x = x.view(),
                          .gain = g.view().row(0),
                          .eps = 1e-5f};
  measure(state, w, 4 * kSize, [&] { layer_norm_backward(w, args, Compute::fp32); });
}

void bench_gelu(benchmark::State& state) {
  Workspace w(threads());
  const Buffer y(w, kTokens, kWidth), x(w, kTokens, kWidth);
  const Gelu kind = state.range(0) == 0 ? Gelu::tanh : Gelu::erf;
  measure(state, w, 2 * kSize, [&] { gelu(w, y.view(), x.view(), kind, Compute::fp32); });
}

void bench_gelu_backward(benchmark::State& state) {
  Workspace w(threads());
  const Buffer dx(w, kTokens, kWidth), dy(w, kTokens, kWidth), x(w, kTokens, kWidth);
  const Gelu kind = state.range(0) == 0 ? Gelu::tanh : Gelu::erf;
  measure(state, w, 3 * kSize,
          [&] { gelu_backward(w, dx.view(), dy.view(), x.view(), kind, Compute::fp32); });
}

void bench_swiglu(benchmark::State& state) {
  Workspace w(threads());
  const Buffer y(w, kTokens, kWidth), g(w, kTokens, kWidth), u(w, kTokens, kWidth);
  measure(state, w, 3 * kSize, [&] { swiglu(w, y.view(), g.view(), u.view(), Compute::fp32); });
}

void bench_swiglu_backward(benchmark::State& state) {
  Workspace w(threads());
  const Buffer dg(w, kTokens, kWidth), du(w, kTokens, kWidth), dy(w, kTokens, kWidth),
      g(w, kTokens, kWidth), u(w, kTokens, kWidth);
  measure(state, w, 5 * kSize, [&] {
    swiglu_backward(w, dg.view(), du.view(), dy.view(), g.view(), u.view(), Compute::fp32);
  });
}

void bench_cross_entropy(benchmark::State& state) {
  Workspace w(threads());
  constexpr int64_t kRows = 256, kVocabulary = 50257;
  const Buffer logits(w, kRows, kVocabulary);
  std::vector<float> losses(kRows);
  const std::vector<int32_t> targets(kRows, 17);
  measure(state, w, 2 * kRows * kVocabulary, [&] {
    cross_entropy(w, logits.view(), losses.data(), targets, nullptr, 1, Compute::fp32);
  });
}

void bench_column_sums(benchmark::State& state) {
  Workspace w(threads());
  const Buffer x(w, kTokens, kWidth), sum(w, 1, kWidth);
  measure(state, w, kSize, [&] { add_column_sums(w, sum.view().data, x.view()); });
}

void bench_sum_of_squares(benchmark::State& state) {
  Workspace w(threads());
  const Buffer x(w, kTokens, kWidth);
  double sum = 0;
  measure(state, w, kSize, [&] { add_sum_of_squares(w, &sum, x.view()); });
}

void bench_adamw(benchmark::State& state) {
  Workspace w(threads());
  const Buffer weight(w, kTokens, kWidth), m(w, kTokens, kWidth), v(w, kTokens, kWidth),
      g(w, kTokens, kWidth);
  const AdamW args{.weight = weight.view(),
                   .m = m.view(),
                   .v = v.view(),
                   .grad = g.view(),
                   .lr = 1e-3f,
                   .beta1 = 0.9f,
                   .beta2 = 0.95f,
                   .eps = 1e-8f,
                   .weight_decay = 0.1f};
  measure(state, w, 7 * kSize, [&] { adamw(w, args); });
}

void bench_fill_normal(benchmark::State& state) {
  Workspace w(threads());
  const Buffer x(w, 1024, kWidth);
  measure(state, w, 1024 * kWidth, [&] { fill_normal(w, x.view(), 1, RandomKey{}); });
}

BENCHMARK(bench_add)->Iterations(20)->UseManualTime();
BENCHMARK(bench_rms_norm)->Iterations(20)->UseManualTime();
BENCHMARK(bench_layer_norm)->Iterations(20)->UseManualTime();
BENCHMARK(bench_layer_norm_backward)->Iterations(20)->UseManualTime();
BENCHMARK(bench_gelu)->ArgName("erf")->Arg(0)->Arg(1)->Iterations(20)->UseManualTime();
BENCHMARK(bench_gelu_backward)->ArgName("erf")->Arg(0)->Arg(1)->Iterations(20)->UseManualTime();
BENCHMARK(bench_swiglu)->Iterations(20)->UseManualTime();
BENCHMARK(bench_swiglu_backward)->Iterations(20)->UseManualTime();
BENCHMARK(bench_cross_entropy)->Iterations(20)->UseManualTime();
BENCHMARK(bench_column_sums)->Iterations(20)->UseManualTime();
BENCHMARK(bench_sum_of_squares)->Iterations(20)->UseManualTime();
BENCHMARK(bench_adamw)->Iterations(20)->UseManualTime();
BENCHMARK(bench_fill_normal)->Iterations(2)->UseManualTime();

}  // namespace
}  // namespace ng::cpu
