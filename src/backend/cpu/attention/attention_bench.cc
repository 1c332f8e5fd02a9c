// GFLOP/s of attention per second of CPU time, counting only what the causal mask leaves, and its
// share of the FMA peak measured the same way just before each shape. Forward: two products,
// backward: five. CPU time, unlike time on the clock, hardly sees other work on the machine.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <ctime>
#include <type_traits>
#include <vector>

#include "backend/cpu/attention/attention.h"
#include "backend/cpu/gemm/isa/microkernel.h"

namespace ng::cpu {
namespace {

// Of all threads together.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The GEMM's microkernel on panels in the L1 cache: the most that FMA instructions give.
double peak_gflops(Threads threads) {
  constexpr int64_t kDepth = 128;
  const Microkernel& kernel = current_microkernel();
  double best = 1e9;
  for (int attempt = 0; attempt < 9; ++attempt) {
    const double start = cpu_seconds();
    parallel_for(threads, threads.count, [&](int64_t, int) {
      alignas(64) float a[kDepth * kMaxTileRows] = {};
      alignas(64) float b[kDepth * kMaxTileCols] = {};
      alignas(64) float y[kMaxTileRows * kMaxTileCols];
      for (int i = 0; i < 1000; ++i) kernel.fp32.chain(kDepth, a, b, {}, {y, kernel.cols});
      benchmark::DoNotOptimize(y);
    });
    best = std::min(best, cpu_seconds() - start);
  }
  return 2e-9 * 1000 * kDepth * kernel.rows * kernel.cols * threads.count / best;
}

/// One layer's tensors: q, k and v side by side as a fused projection leaves them.
template <class Stored>
struct Layer {
  AttentionShape shape;
  int64_t width, tokens;
  std::vector<Stored> qkv, dqkv, out, dout;
  std::vector<float> lse;

  Layer(int64_t sequences, int64_t length, int heads)
      : shape{.sequences = sequences,
              .length = length,
              .kv_length = length,
              .kv_stride = length,
              .first = 0,
              .heads = heads,
              .kv_heads = heads,
              .head_dim = 64},
        width(int64_t{heads} * 64),
        tokens(sequences * length),
        qkv(static_cast<size_t>(3 * tokens * width)),
        dqkv(qkv.size()),
        out(static_cast<size_t>(tokens * width)),
        dout(out.size(), stored(0.01f)),
        lse(static_cast<size_t>(tokens * heads)) {
    for (size_t i = 0; i < qkv.size(); ++i)
      qkv[i] = stored(static_cast<float>(i * 37 % 101) * 0.02f - 1);
  }
  static Stored stored(float x) {
    if constexpr (std::is_same_v<Stored, Bf16>)
      return to_bf16(x);
    else
      return x;
  }
  View part(std::vector<Stored>& x, int64_t i) const {
    return View{x.data(), tokens, 3 * width, 3 * width}.columns(i * width, width);
  }
  View whole(std::vector<Stored>& x) const { return {x.data(), tokens, width, width}; }
  View lse_view() { return {lse.data(), tokens, shape.heads, shape.heads}; }
  /// Multiplications and additions of one product over the visible half.
  [[nodiscard]] double flops() const {
    return 2.0 * 64 * double(shape.heads) * double(shape.sequences) * double(shape.length) *
           double(shape.length + 1) / 2;
  }
  void forward(Workspace& workspace) {
    perform(workspace, Attention{.out = whole(out),
                                 .lse = lse_view(),
                                 .q = part(qkv, 0),
                                 .k = part(qkv, 1),
                                 .v = part(qkv, 2),
                                 .shape = shape});
  }
  void backward(Workspace& workspace) {
    perform(workspace, AttentionBackward{.dq = part(dqkv, 0),
                                         .dk = part(dqkv, 1),
                                         .dv = part(dqkv, 2),
                                         .dout = whole(dout),
                                         .out = whole(out),
                                         .lse = lse_view(),
                                         .q = part(qkv, 0),
                                         .k = part(qkv, 1),
                                         .v = part(qkv, 2),
                                         .shape = shape});
  }
};

template <class Stored>
void measure(benchmark::State& state) {
  Layer<Stored> layer(state.range(0), state.range(1), static_cast<int>(state.range(2)));
  const Threads threads{static_cast<int>(state.range(3))};
  const bool backward = state.range(4) != 0;
  Workspace workspace(threads);
  layer.forward(workspace);
  const double peak = peak_gflops(threads);
  double best = 1e9;
  for (auto _ : state) {
    const double start = cpu_seconds();
    backward ? layer.backward(workspace) : layer.forward(workspace);
    best = std::min(best, cpu_seconds() - start);
  }
  const double gflops = 1e-9 * (backward ? 5 : 2) * layer.flops() / best;
  state.counters["CPU ms"] = best * 1e3;
  state.counters["GFLOP/s per core"] = gflops;
  state.counters["% of peak"] = 100 * gflops / peak;
}

// Arguments: sequences, length, heads (of 64), threads, backward (0 or 1), BF16 in memory (0 or 1).
void BM_attention(benchmark::State& state) {
  if (state.range(5) != 0)
    measure<Bf16>(state);
  else
    measure<float>(state);
}

BENCHMARK(BM_attention)
    ->ArgNames({"sequences", "length", "heads", "threads", "backward", "bf16"})
    ->ArgsProduct({{8}, {256}, {6}, {1}, {0, 1}, {0, 1}})
    ->ArgsProduct({{4}, {256}, {12}, {1}, {0, 1}, {0, 1}})
    ->ArgsProduct({{1}, {1024}, {12}, {1}, {0, 1}, {0, 1}})
    ->UseRealTime()
    ->MinTime(0.2);

}  // namespace
}  // namespace ng::cpu
