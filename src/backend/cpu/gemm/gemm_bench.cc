// GFLOP/s of the GEMM driver and its share of the FMA peak measured just before each shape.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/gemm/isa/microkernel.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/packed.h"

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
      for (int i = 0; i < 2000; ++i) kernel.fp32.chain(kDepth, a, b, {}, {y, kernel.cols});
      benchmark::DoNotOptimize(y);
    });
    best = std::min(best, seconds() - start);
  }
  return 2e-9 * 2000 * kDepth * kernel.rows * kernel.cols * threads.count / best;
}

// An operand of `format` in memory like that of training: all memory holds 1.0f, whatever that is
// as elements.
class BenchOperand {
 public:
  BenchOperand(std::string_view format, int64_t rows, int64_t k, Contract contract) {
    packed_.spec.cast = operand_of(format);
    packed_.spec.contract = contract;
    packed_.spec.rows = rows;
    packed_.spec.k = k;
    packed_.spec.k_multiple = is_read_in_place(packed_.spec) ? 1 : 128;
    const PackedLayout layout = packed_layout(packed_.spec);
    bytes_ = layout.bytes > 0 ? layout.bytes : static_cast<size_t>(rows * k) * sizeof(float);
    memory_ = allocate(bytes_);
    fill(layout);
    const auto* values = reinterpret_cast<const float*>(memory_);
    packed_.storage = memory_;
    packed_.source = contract == Contract::cols ? ConstView{values, rows, k, k}
                                                : ConstView{values, k, rows, rows};
  }
  ~BenchOperand() { release(memory_, bytes_); }
  BenchOperand(const BenchOperand&) = delete;
  BenchOperand& operator=(const BenchOperand&) = delete;
  [[nodiscard]] const PackedOperand& packed() const { return packed_; }

 private:
  void fill(const PackedLayout& layout) {
    constexpr uint16_t kOneInBf16 = 0x3F80;
    auto* values = reinterpret_cast<float*>(memory_);
    std::fill(values, values + bytes_ / sizeof(float), 1.0f);
    if (layout.bytes == 0 || layout.form != ElementForm::bf16) return;
    std::fill(reinterpret_cast<uint16_t*>(memory_ + layout.elements_at),
              reinterpret_cast<uint16_t*>(memory_ + layout.scales_at), kOneInBf16);
  }

  PackedOperand packed_;
  std::byte* memory_ = nullptr;
  size_t bytes_ = 0;
};

struct Shape {
  int64_t m, n, k;
  Contract a = Contract::cols;
  Contract b = Contract::cols;
  Into into = Into::overwrite;
};

void run(benchmark::State& state, std::string_view format, const Shape& shape, Threads threads) {
  const BenchOperand a(format, shape.m, shape.k, shape.a);
  const BenchOperand b(format, shape.n, shape.k, shape.b);
  const auto bytes = static_cast<size_t>(shape.m * shape.n) * sizeof(float);
  std::byte* y = allocate(bytes);
  Workspace workspace(threads);
  const double peak = peak_gflops(threads);
  double best = 1e9;
  for (auto _ : state) {
    const double start = seconds();
    gemm(workspace, {.y = {reinterpret_cast<float*>(y), shape.m, shape.n, shape.n},
                     .a = &a.packed(),
                     .b = &b.packed(),
                     .into = shape.into});
    best = std::min(best, seconds() - start);
  }
  release(y, bytes);
  const double gflops = 2e-9 * double(shape.m) * double(shape.n) * double(shape.k) / best;
  state.counters["GFLOP/s"] = gflops;
  state.counters["% of peak"] = 100 * gflops / peak;
}

void add(const std::string& name, std::string_view format, const Shape& shape) {
  for (const int threads : {1, 2}) {
    const std::string title =
        fmt::format("{} {} {}x{}x{} threads {}", name, format, shape.m, shape.n, shape.k, threads);
    benchmark::RegisterBenchmark(title.c_str(), [=](benchmark::State& state) {
      run(state, format, shape, Threads{threads});
    })->MinTime(0.05);
  }
}

// The three GEMMs of a linear layer.
void add_layer(int64_t tokens, int64_t outputs, int64_t inputs) {
  constexpr Contract kRows = Contract::rows;
  constexpr Contract kCols = Contract::cols;
  add("fprop", "fp32", {tokens, outputs, inputs});
  add("dgrad", "fp32", {tokens, inputs, outputs, kCols, kRows});
  add("wgrad", "fp32", {outputs, inputs, tokens, kRows, kRows, Into::add});
}

bool add_all() {
  constexpr int64_t kLayers[][2] = {{768, 768}, {2304, 768}, {3072, 768}, {768, 3072},
                                    {384, 384}, {1152, 384}, {1536, 384}, {384, 1536}};
  for (const int64_t tokens : {1024, 2048})
    for (const auto& [outputs, inputs] : kLayers) add_layer(tokens, outputs, inputs);
  for (const int64_t tokens : {256, 1024}) add_layer(tokens, 50257, 768);
  for (const int64_t tokens : {1, 4, 33}) add("fprop", "fp32", {tokens, 3072, 768});
  for (const std::string_view format : operand_names()) add("fprop", format, {1024, 3072, 768});
  return true;
}

const bool kAdded = add_all();

}  // namespace
}  // namespace ng::cpu
