#include "speed/machine.h"

#include <algorithm>
#include <chrono>

#include "backend/cpu/gemm/isa/microkernel.h"

namespace ng {
namespace {

constexpr int64_t kDepth = 128;            // panels of at most 28 KB
constexpr int64_t kShortWords = 8;         // of kDepth, that int16 sums hold
constexpr double kAttemptSeconds = 0.004;  // long enough to start all threads
constexpr double kBudgetSeconds = 0.1;     // for attempts: the best is one that nobody disturbed,
constexpr int kEnough = 5;                 // and so many within kAlike of it show that it was one
constexpr double kAlike = 1.01;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A microkernel `calls` times on panels of kDepth in the L1 cache.
using Work = void(int64_t calls);

void run_chains(cpu::ChainKernel* chain, int64_t calls) {
  const int cols = cpu::current_microkernel().cols;
  alignas(64) float a[kDepth * cpu::kMaxTileRows] = {};
  alignas(64) float b[kDepth * cpu::kMaxTileCols] = {};
  alignas(64) float y[cpu::kMaxTileRows * cpu::kMaxTileCols] = {};
  for (int64_t i = 0; i < calls; ++i) chain(kDepth, a, b, {y, cols}, {y, cols});
}

void multiply_floats(int64_t calls) { run_chains(cpu::current_microkernel().fp32.chain, calls); }
void multiply_bf16(int64_t calls) { run_chains(cpu::current_microkernel().bf16.chain, calls); }

void multiply_integers(int64_t calls) {
  const cpu::Microkernel& kernel = cpu::current_microkernel();
  alignas(64) float a[kDepth * cpu::kMaxTileRows] = {};
  alignas(64) float b[kDepth * cpu::kMaxTileCols] = {};
  alignas(64) int32_t sums[cpu::kMaxTileRows * cpu::kMaxTileCols] = {};
  const int32_t starts[kDepth / kShortWords * cpu::kMaxTileRows] = {};
  const cpu::SegmentRun run{
      .count = kDepth, .a = a, .b = b, .starts = starts, .scales = {}, .words = kShortWords};
  const bool has_short = kernel.short_dots.plain != nullptr;  // the faster ones
  cpu::DotKernel* dots = has_short ? kernel.short_dots.plain : kernel.dots.plain;
  for (int64_t i = 0; i < calls; ++i) dots(run, sums);
}

// Seconds that the calls take on every thread at once.
double seconds_of(Threads threads, Work* work, int64_t calls) {
  const double start = now();
  parallel_for(threads, threads.count, [&](int64_t, int) { work(calls); });
  return now() - start;
}

double least_seconds(Threads threads, Work* work, int64_t calls, int attempts) {
  double least = seconds_of(threads, work, calls);
  for (int i = 1; i < attempts; ++i) least = std::min(least, seconds_of(threads, work, calls));
  return least;
}

// Calls per second of all threads together.
double peak_calls(Threads threads, Work* work) {
  constexpr int64_t kFewCalls = 16;
  const double start = now();
  const double few = least_seconds({1}, work, kFewCalls, 3);
  const auto calls = std::max(
      kFewCalls, static_cast<int64_t>(static_cast<double>(kFewCalls) * kAttemptSeconds / few));
  double least = least_seconds(threads, work, calls, 2);
  for (int alike = 1; alike < kEnough && now() - start < kBudgetSeconds; ++alike) {
    const double seconds = seconds_of(threads, work, calls);
    if (seconds * kAlike < least) alike = 0;
    if (seconds > least * kAlike) --alike;
    least = std::min(least, seconds);
  }
  return static_cast<double>(calls * threads.count) / least;
}

// Operations of one call whose elements hold `lanes` values.
double ops_per_call(int lanes) {
  const cpu::Microkernel& kernel = cpu::current_microkernel();
  return 2.0 * static_cast<double>(lanes * kDepth * kernel.rows * kernel.cols);
}

}  // namespace

double measured_peak_flops(Threads threads) {
  return ops_per_call(1) * peak_calls(threads, multiply_floats);
}

double measured_peak_bf16_flops(Threads threads) {
  if (cpu::current_microkernel().bf16.chain == nullptr) return 0;
  return ops_per_call(2) * peak_calls(threads, multiply_bf16);
}

double measured_peak_dot_ops(Threads threads) {
  const cpu::Microkernel& kernel = cpu::current_microkernel();
  if (kernel.dots.plain == nullptr && kernel.short_dots.plain == nullptr) return 0;
  return ops_per_call(4) * peak_calls(threads, multiply_integers);
}

}  // namespace ng
