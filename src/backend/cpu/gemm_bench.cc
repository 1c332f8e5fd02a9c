// GFLOP/s of the GEMM driver and its share of the FMA peak measured just before each shape.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "backend/cpu/gemm.h"
#include "backend/cpu/isa/microkernel.h"

namespace ng::cpu {
namespace {

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The microkernel on panels in the L1 cache: the most that FMA instructions give, per thread.
double peak_gflops(Threads threads) {
  constexpr int64_t kDepth = 128;
  const Microkernel& kernel = current_microkernel();
  double best = 1e9;
  for (int attempt = 0; attempt < 5; ++attempt) {
    const double start = seconds();
    parallel_for(threads, threads.count, [&](int64_t, int) {
      alignas(64) float a[kDepth * kMaxTileRows] = {};
      alignas(64) float b[kDepth * kMaxTileCols] = {};
      alignas(64) float y[kMaxTileRows * kMaxTileCols];
      for (int i = 0; i < 2000; ++i) kernel.chain(kDepth, a, b, {}, {y, kernel.cols});
      benchmark::DoNotOptimize(y);
    });
    best = std::min(best, seconds() - start);
  }
  return 2e-9 * 2000 * kDepth * kernel.rows * kernel.cols * threads.count / best;
}

PackedOperand operand(std::vector<float>& values, int64_t rows, int64_t k, Contract contract) {
  values.assign(static_cast<size_t>(rows * k), 0.001f);
  PackedOperand packed;
  packed.spec.cast = operand_of("fp32");
  packed.spec.contract = contract;
  packed.spec.rows = rows;
  packed.spec.k = k;
  packed.source = contract == Contract::cols ? ConstView{values.data(), rows, k, k}
                                             : ConstView{values.data(), k, rows, rows};
  return packed;
}

// Arguments: m, n, k, contract of a, contract of b (0: cols, 1: rows), threads.
void BM_gemm_fp32(benchmark::State& state) {
  const int64_t m = state.range(0);
  const int64_t n = state.range(1);
  const int64_t k = state.range(2);
  const auto contract = [&](int i) {
    return state.range(i) == 0 ? Contract::cols : Contract::rows;
  };
  const Threads threads{static_cast<int>(state.range(5))};
  std::vector<float> a_values;
  std::vector<float> b_values;
  std::vector<float> y(static_cast<size_t>(m * n));
  const PackedOperand a = operand(a_values, m, k, contract(3));
  const PackedOperand b = operand(b_values, n, k, contract(4));
  Workspace workspace(threads);
  const double peak = peak_gflops(threads);
  double best = 1e9;
  for (auto _ : state) {
    const double start = seconds();
    gemm(workspace, {.y = {y.data(), m, n, n}}, a, b);
    best = std::min(best, seconds() - start);
  }
  const double gflops = 2e-9 * double(m) * double(n) * double(k) / best;
  state.counters["GFLOP/s"] = gflops;
  state.counters["% of peak"] = 100 * gflops / peak;
}

void shapes(benchmark::internal::Benchmark* bench) {
  for (const int64_t threads : {1, 2}) {
    for (const int64_t tokens : {1024, 2048}) {
      const int64_t layers[][2] = {{768, 768}, {2304, 768}, {3072, 768}, {768, 3072},
                                   {384, 384}, {1152, 384}, {1536, 384}, {384, 1536}};
      for (const auto& [o, i] : layers) {
        bench->Args({tokens, o, i, 0, 0, threads});  // fprop
        bench->Args({tokens, i, o, 0, 1, threads});  // dgrad
        bench->Args({o, i, tokens, 1, 1, threads});  // wgrad
      }
    }
    for (const int64_t tokens : {256, 1024}) {
      bench->Args({tokens, 50257, 768, 0, 0, threads});
      bench->Args({tokens, 768, 50257, 0, 1, threads});
      bench->Args({50257, 768, tokens, 1, 1, threads});
    }
    for (const int64_t tokens : {1, 4, 33}) bench->Args({tokens, 3072, 768, 0, 0, threads});
  }
}
BENCHMARK(BM_gemm_fp32)->Apply(shapes)->MinTime(0.05);

}  // namespace
}  // namespace ng::cpu
