// Speed of the quantizer on one thread: elements/s, bytes read and written per second, and percent
// of a plain copy of the source measured in the same run.
#include <benchmark/benchmark.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/quantize/quantize.h"
#include "base/isa.h"

namespace ng {
namespace {

constexpr int64_t kRows = 1024;  // tokens of a batch
constexpr int64_t kCols = 768;

std::vector<float> source_values() {
  std::vector<float> x(kRows * kCols);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (float& v : x) v = normal(random);
  return x;
}

// Of this process: other load on the machine counts less.
double seconds_since(std::clock_t start) {
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

struct Case {
  const char* format;
  Contract contract;
  const ElementFormat* source = &fp32_format();
  Rounding rounding = Rounding::nearest;
  int hadamard = 0;
};

void report(benchmark::State& state, double bytes_each) {
  const auto values = static_cast<double>(state.iterations()) * kRows * kCols;
  state.counters["elements/s"] = benchmark::Counter(values, benchmark::Counter::kIsRate);
  state.counters["bytes/s"] = benchmark::Counter(values * bytes_each, benchmark::Counter::kIsRate);
}

double copy_bytes_per_second = 0;  // of this run

void copy_source(benchmark::State& state) {
  const std::vector<float> x = source_values();
  std::vector<float> y(x.size());
  const std::clock_t start = std::clock();
  for (auto _ : state) {
    std::memcpy(y.data(), x.data(), x.size() * sizeof(float));
    benchmark::ClobberMemory();
  }
  const double seconds = seconds_since(start);
  copy_bytes_per_second = 8.0 * kRows * kCols * static_cast<double>(state.iterations()) / seconds;
  report(state, 8);
}

void quantize(benchmark::State& state, const Case& c, Isa isa) {
  force_isa(isa);
  const std::vector<float> x = source_values();
  std::vector<Bf16> narrow(x.size());
  std::transform(x.begin(), x.end(), narrow.begin(), to_bf16);
  const bool is_bf16 = c.source == &bf16_format();
  const ConstView source = is_bf16 ? ConstView{narrow.data(), kRows, kCols, kCols}
                                   : ConstView{x.data(), kRows, kCols, kCols};
  OperandSpec spec;
  spec.cast = operand_of(c.format);
  spec.cast.rounding = c.rounding;
  spec.contract = c.contract;
  spec.rows = c.contract == Contract::cols ? kRows : kCols;
  spec.k = c.contract == Contract::cols ? kCols : kRows;
  spec.hadamard.size = c.hadamard;
  const size_t bytes = cpu::operand_bytes(spec);
  const std::unique_ptr<std::byte[]> storage(new (std::align_val_t{64}) std::byte[bytes]);
  PackedOperand packed{.spec = spec, .source = {}, .storage = storage.get(), .bytes = bytes};
  cpu::Workspace workspace({1});
  OperandStats stats;
  PrepareContext context;
  context.stats = &stats;
  const std::clock_t start = std::clock();
  for (auto _ : state)
    cpu::prepare(workspace, {.packed = &packed, .source = source, .context = context});
  const double seconds = seconds_since(start);
  const double bytes_each = static_cast<double>(source.bytes() + bytes) / (kRows * kCols);
  report(state, bytes_each);
  const double speed =
      bytes_each * kRows * kCols * static_cast<double>(state.iterations()) / seconds;
  if (copy_bytes_per_second > 0) state.counters["copy%"] = 100 * speed / copy_bytes_per_second;
  force_isa("auto");
}

const int registered = [] {
  benchmark::RegisterBenchmark("copy", copy_source);
  std::vector<Case> cases;
  for (const ElementFormat* source : {&fp32_format(), &bf16_format()}) {
    for (const char* format : {"mxfp4", "nvfp4", "fp8_e4m3", "mxfp8_e4m3", "mxfp6_e3m2", "int8"})
      for (const Contract contract : {Contract::cols, Contract::rows})
        cases.push_back({format, contract, source});
    for (const char* format : {"mxfp4", "nvfp4"})
      for (const Contract contract : {Contract::cols, Contract::rows})
        for (const int hadamard : {0, 64})
          cases.push_back({format, contract, source, Rounding::stochastic, hadamard});
  }
  for (const Isa isa : supported_isas())
    for (const Case& c : cases) {
      std::string name = fmt::format("{}/{}/{}", name_of(isa), c.source->short_name, c.format);
      name += c.contract == Contract::cols ? "/along" : "/turned";
      if (c.rounding == Rounding::stochastic) name += "/sr";
      if (c.hadamard != 0) name += "/hadamard" + std::to_string(c.hadamard);
      benchmark::RegisterBenchmark(name.c_str(), quantize, c, isa);
    }
  return 0;
}();

}  // namespace
}  // namespace ng
