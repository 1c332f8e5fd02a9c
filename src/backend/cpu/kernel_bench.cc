// Memory-bound kernels: GB/s and percent of a copy measured in turns with it on the same threads.
// The bytes are those every implementation must move: each input once, each output once.
#include <benchmark/benchmark.h>

#include <array>
#include <chrono>
#include <utility>
#include <vector>

#include "backend/cpu/memory.h"
#include "backend/cpu/ops/activation.h"
#include "backend/cpu/ops/cross_entropy.h"
#include "backend/cpu/ops/elementwise.h"
#include "backend/cpu/ops/norm.h"
#include "backend/cpu/ops/reduce.h"
#include "backend/cpu/update/adamw_fp32.h"
#include "backend/cpu/update/update.h"

namespace ng::cpu {
namespace {

// Freed with the benchmark.
class Buffer {
 public:
  Buffer(Workspace& workspace, int64_t rows, int64_t cols,
         const ElementFormat& element = fp32_format())
      : view_(allocate(bytes_of(element, rows * cols)), element, rows, cols, cols) {
    perform(workspace, Fill{.x = view_, .value = 0.25f});
  }
  ~Buffer() { release(view_.data, view_.bytes()); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  [[nodiscard]] View view() const { return view_; }

 private:
  View view_;
};

double seconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// An operation that moves `bytes`. It takes turns with a copy of 64 MiB, so that both see the same
// neighbours; best against best.
void measure(benchmark::State& state, Workspace& workspace, size_t bytes, const auto& op) {
  const Buffer from(workspace, 2048, 8192), to(workspace, 2048, 8192);
  const Copy copy{.y = to.view(), .x = from.view()};
  double best = 1e9, best_copy = 1e9;
  for (auto _ : state) {
    best_copy = std::min(best_copy, seconds_of([&] { perform(workspace, copy); }));
    const double seconds = seconds_of([&] { perform(workspace, op); });
    state.SetIterationTime(seconds);
    best = std::min(best, seconds);
  }
  const double bandwidth = static_cast<double>(bytes) / best;
  const double copied = 2.0 * static_cast<double>(from.view().bytes()) / best_copy;
  state.counters["GB/s"] = bandwidth * 1e-9;
  state.counters["%copy"] = 100 * bandwidth / copied;
}

// What activations are stored as: the benchmark's first argument.
const ElementFormat& stored(const benchmark::State& state) {
  return state.range(0) != 0 ? bf16_format() : fp32_format();
}

Threads threads() { return {available_cores()}; }

constexpr int64_t kTokens = 4096, kWidth = 3072;

// Buffers of one type, all (kTokens, kWidth).
template <size_t kCount>
struct Buffers {
  std::array<Buffer, kCount> all;
  [[nodiscard]] View view(size_t i) const { return all[i].view(); }
  [[nodiscard]] size_t bytes() const { return kCount * all[0].view().bytes(); }
};

template <size_t... kIndices>
Buffers<sizeof...(kIndices)> make_buffers(Workspace& w, const ElementFormat& element,
                                          std::index_sequence<kIndices...>) {
  return {{(static_cast<void>(kIndices), Buffer(w, kTokens, kWidth, element))...}};
}
template <size_t kCount>
Buffers<kCount> buffers(Workspace& w, const ElementFormat& element = fp32_format()) {
  return make_buffers(w, element, std::make_index_sequence<kCount>());
}

void bench_add(benchmark::State& state) {
  Workspace w(threads());
  const auto b = buffers<3>(w, stored(state));
  measure(state, w, b.bytes(), Add{.y = b.view(0), .a = b.view(1), .b = b.view(2)});
}

void bench_norm(benchmark::State& state, NormKind kind) {
  Workspace w(threads());
  const auto b = buffers<2>(w, stored(state));
  const Buffer g(w, 1, kWidth);
  measure(state, w, b.bytes(),
          Norm{.kind = kind,
               .y = b.view(0),
               .x = b.view(1),
               .gain = g.view(),
               .bias = kind == NormKind::layer ? ConstView(g.view()) : ConstView{},
               .eps = 1e-5f});
}

void bench_layer_norm_backward(benchmark::State& state) {
  Workspace w(threads());
  const auto b = buffers<3>(w, stored(state));
  const Buffer g(w, 3, kWidth);
  measure(state, w, b.bytes() / 3 * 4,
          NormBackward{.kind = NormKind::layer,
                       .dx = b.view(0),
                       .dgain = g.view().slice(1, 1),
                       .dbias = g.view().slice(2, 1),
                       .dresidual = b.view(0),
                       .dy = b.view(1),
                       .x = b.view(2),
                       .gain = g.view().slice(0, 1),
                       .eps = 1e-5f});
}

void bench_gelu(benchmark::State& state, GeluKind kind) {
  Workspace w(threads());
  const auto b = buffers<2>(w, stored(state));
  measure(state, w, b.bytes(), Gelu{.y = b.view(0), .x = b.view(1), .kind = kind});
}

void bench_gelu_backward(benchmark::State& state, GeluKind kind) {
  Workspace w(threads());
  const auto b = buffers<3>(w, stored(state));
  measure(state, w, b.bytes(),
          GeluBackward{.dx = b.view(0), .dy = b.view(1), .x = b.view(2), .kind = kind});
}

void bench_swiglu(benchmark::State& state) {
  Workspace w(threads());
  const auto b = buffers<3>(w, stored(state));
  measure(state, w, b.bytes(), Swiglu{.y = b.view(0), .gate = b.view(1), .up = b.view(2)});
}

void bench_swiglu_backward(benchmark::State& state) {
  Workspace w(threads());
  const auto b = buffers<5>(w, stored(state));
  measure(state, w, b.bytes(),
          SwigluBackward{.dgate = b.view(0),
                         .dup = b.view(1),
                         .dy = b.view(2),
                         .gate = b.view(3),
                         .up = b.view(4)});
}

void bench_cross_entropy(benchmark::State& state) {
  Workspace w(threads());
  constexpr int64_t kRows = 256, kVocabulary = 50257;
  const Buffer logits(w, kRows, kVocabulary, stored(state)), losses(w, 1, kRows);
  const std::vector<int32_t> targets(kRows, 17);
  measure(state, w, 2 * logits.view().bytes(),
          CrossEntropy{
              .logits = logits.view(), .losses = losses.view(), .targets = targets, .mask = {}});
}

void bench_column_sums(benchmark::State& state) {
  Workspace w(threads());
  const auto b = buffers<1>(w, stored(state));
  const Buffer sum(w, 1, kWidth);
  measure(state, w, b.bytes(), AddColumnSums{.sum = sum.view(), .x = b.view(0)});
}

void bench_sum_of_squares(benchmark::State& state) {
  Workspace w(threads());
  const auto b = buffers<1>(w, stored(state));
  double sum = 0;
  measure(state, w, b.bytes(), AddSumOfSquares{.sum = &sum, .x = b.view(0)});
}

void bench_adamw(benchmark::State& state) {
  Workspace w(threads());
  const auto b = buffers<3>(w);
  const auto g = buffers<1>(w, stored(state));
  measure(
      state, w, 2 * b.bytes() + g.bytes(),
      Update{.weight = {.value = stored_plainly(b.view(0))},
             .moment1 = stored_plainly(b.view(1)),
             .moment2 = stored_plainly(b.view(2)),
             .grad = g.view(0),
             .numbers = {
                 .lr = 1e-3f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .weight_decay = 0.1f}});
}

void bench_fill_normal(benchmark::State& state) {
  Workspace w(threads());
  const Buffer x(w, 1024, kWidth);
  measure(state, w, x.view().bytes(), FillNormal{.x = x.view(), .key = {}});
}

#define NG_BOTH(bench) bench->ArgName("bf16")->Arg(0)->Arg(1)->Iterations(20)->UseManualTime()
NG_BOTH(BENCHMARK(bench_add));
NG_BOTH(BENCHMARK_CAPTURE(bench_norm, rms, NormKind::rms));
NG_BOTH(BENCHMARK_CAPTURE(bench_norm, layer, NormKind::layer));
NG_BOTH(BENCHMARK(bench_layer_norm_backward));
NG_BOTH(BENCHMARK_CAPTURE(bench_gelu, tanh, GeluKind::tanh));
NG_BOTH(BENCHMARK_CAPTURE(bench_gelu, erf, GeluKind::erf));
NG_BOTH(BENCHMARK_CAPTURE(bench_gelu_backward, tanh, GeluKind::tanh));
NG_BOTH(BENCHMARK_CAPTURE(bench_gelu_backward, erf, GeluKind::erf));
NG_BOTH(BENCHMARK(bench_swiglu));
NG_BOTH(BENCHMARK(bench_swiglu_backward));
NG_BOTH(BENCHMARK(bench_cross_entropy));
NG_BOTH(BENCHMARK(bench_column_sums));
NG_BOTH(BENCHMARK(bench_sum_of_squares));
NG_BOTH(BENCHMARK(bench_adamw));
BENCHMARK(bench_fill_normal)->Iterations(2)->UseManualTime();

}  // namespace
}  // namespace ng::cpu
