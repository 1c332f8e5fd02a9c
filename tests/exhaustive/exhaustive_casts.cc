// Compares the element encoding of the cpu backend with the scalar definition on all 2^32 FP32
// inputs: every format of at most 8 bits, both overflow policies, every instruction set of this
// CPU.
//
// Nothing is sampled or inferred: the definition is evaluated on every input, once per policy, and
// each instruction set's result is compared with it code by code. The inputs are taken in blocks of
// consecutive patterns (a matrix of kRows × kCols), so each meets one vector lane and one
// neighbourhood; that results do not depend on those is what the kernel tests check.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>

#include "base/error.h"
#include "base/isa.h"
#include "base/threads.h"
#include "element_casts.h"

namespace ng::exhaustive {
namespace {

constexpr int64_t kRows = 64;
constexpr int64_t kCols = 1024;
constexpr int64_t kBlock = kRows * kCols;  // inputs of one call of the backend
constexpr int64_t kBlocks = 1024;          // in a batch: what is known of it takes 64 MiB
constexpr int64_t kBatch = kBlock * kBlocks;
constexpr int64_t kBatches = (int64_t{1} << 32) / kBatch;
constexpr uint64_t kNone = ~uint64_t{0};

struct Options {
  std::vector<std::string> formats;
  std::vector<std::string> isas;
  std::string overflow;  ///< empty: both policies
  int64_t threads = 0;
};

/// What a worker needs for one block.
struct Worker {
  std::vector<float> x = std::vector<float>(kBlock);
  std::unique_ptr<CpuCaster> caster;
};

/// How one cast fared on one instruction set.
struct Outcome {
  std::atomic<uint64_t> differing{0};
  std::atomic<uint64_t> first{kNone};  ///< the least input pattern that differs

  void note(uint64_t pattern) {
    differing.fetch_add(1, std::memory_order_relaxed);
    uint64_t known = first.load();
    while (pattern < known && !first.compare_exchange_weak(known, pattern)) {
    }
  }
};

/// One line of a terminal: what is being done and how long the rest may take.
class Progress {
 public:
  explicit Progress(int64_t total) : total_(total) {}
  void step(const std::string& what) {
    ++done_;
    if (::isatty(STDERR_FILENO) != 1) return;
    const double seconds = elapsed();
    const double left = seconds / static_cast<double>(done_) * static_cast<double>(total_ - done_);
    fmt::print(stderr, "\r{:<24} {:3.0f} %  {:.0f} s left   ", what,
               100.0 * static_cast<double>(done_) / static_cast<double>(total_), left);
  }
  void clear() const {
    if (::isatty(STDERR_FILENO) == 1) fmt::print(stderr, "\r{:60}\r", "");
  }
  [[nodiscard]] double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  int64_t total_;
  int64_t done_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

class Comparison {
 public:
  explicit Comparison(Threads threads) : threads_(threads), want_(kBatch) {
    workers_.resize(static_cast<size_t>(threads.count));
  }

  /// All 2^32 inputs. Prints one line; returns how many results differ.
  uint64_t run(const ElementCast& cast, const std::vector<Isa>& isas, Progress& progress) {
    isas_ = isas;
    const double begin = progress.elapsed();
    for (Worker& worker : workers_) worker.caster = std::make_unique<CpuCaster>(cast, kRows, kCols);
    std::vector<Outcome> outcomes(isas_.size());
    for (int64_t batch = 0; batch < kBatches; ++batch) {
      const auto first = static_cast<uint64_t>(batch * kBatch);
      define(cast, first);
      for (size_t i = 0; i < isas_.size(); ++i) {
        force_isa(isas_[i]);
        compare(first, outcomes[i]);
      }
      progress.step(cast.text());
    }
    progress.clear();
    return report(cast, outcomes, progress.elapsed() - begin);
  }

 private:
  std::span<const float> load(int worker, uint64_t first, int64_t block) {
    std::vector<float>& x = workers_[static_cast<size_t>(worker)].x;
    const uint64_t begin = first + static_cast<uint64_t>(block * kBlock);
    for (size_t i = 0; i < x.size(); ++i) x[i] = float_of_bits(static_cast<uint32_t>(begin + i));
    return x;
  }

  void define(const ElementCast& cast, uint64_t first) {
    parallel_for(threads_, kBlocks, [&](int64_t block, int worker) {
      codes_by_definition(cast, load(worker, first, block),
                          {want_.data() + block * kBlock, static_cast<size_t>(kBlock)});
    });
  }

  void compare(uint64_t first, Outcome& outcome) {
    parallel_for(threads_, kBlocks, [&](int64_t block, int worker) {
      const std::span<const float> x = load(worker, first, block);
      const uint16_t* got = workers_[static_cast<size_t>(worker)].caster->codes(x).data();
      const uint8_t* want = want_.data() + block * kBlock;
      int64_t equal = 0;
      for (int64_t i = 0; i < kBlock; ++i) equal += got[i] == want[i] ? 1 : 0;
      if (equal == kBlock) return;
      for (int64_t i = 0; i < kBlock; ++i)
        if (got[i] != want[i]) outcome.note(float_bits(x[static_cast<size_t>(i)]));
    });
  }

  uint64_t report(const ElementCast& cast, const std::vector<Outcome>& outcomes, double seconds) {
    uint64_t differing = 0;
    std::string line;
    for (size_t i = 0; i < outcomes.size(); ++i) {
      const uint64_t count = outcomes[i].differing;
      line += fmt::format("  {} {} differ", name_of(isas_[i]), count);
      differing += count;
    }
    fmt::print("{:<22} 2^32 inputs{}  {:.1f} s\n", cast.text(), line, seconds);
    for (size_t i = 0; i < outcomes.size(); ++i)
      if (outcomes[i].differing > 0) show_first(cast, isas_[i], outcomes[i].first);
    std::fflush(stdout);
    return differing;
  }

  void show_first(const ElementCast& cast, Isa isa, uint64_t pattern) {
    const auto u = static_cast<uint32_t>(pattern);
    const std::vector<float> x(static_cast<size_t>(kBlock), float_of_bits(u));
    std::vector<uint8_t> want(x.size());
    codes_by_definition(cast, x, want);
    force_isa(isa);
    const uint16_t got = workers_[0].caster->codes(x)[0];
    const int bits = cast.format->bits;
    fmt::print("  first on {}: {:01b} {:08b} {:023b} = {}\n    cpu {:0{}b}, definition {:0{}b}\n",
               name_of(isa), u >> 31, (u >> 23) & 0xFF, u & 0x7FFFFF, float_of_bits(u), got, bits,
               want[0], bits);
  }

  Threads threads_;
  std::vector<Isa> isas_;
  std::vector<uint8_t> want_;
  std::vector<Worker> workers_;
};

Overflow policy_of(const std::string& name) {
  if (name == "special") return Overflow::special;
  if (name == "saturate") return Overflow::saturate;
  throw Error({.place = "--overflow",
               .key = "",
               .problem = fmt::format("unknown \"{}\"", name),
               .remedy = "saturate or special"});
}

std::vector<ElementCast> chosen_casts(const Options& options) {
  std::vector<const ElementFormat*> formats;
  for (const std::string& name : options.formats) {
    formats.push_back(&element_format(name));
    if (formats.back()->bits > 8)
      throw Error({.place = "--format",
                   .key = "",
                   .problem = fmt::format("{} has {} bits", name, formats.back()->bits),
                   .remedy = "at most 8"});
  }
  if (formats.empty()) formats = narrow_formats();
  std::vector<ElementCast> casts;
  for (const ElementFormat* format : formats)
    for (const ElementCast& cast : casts_of(*format))
      if (options.overflow.empty() || cast.overflow == policy_of(options.overflow))
        casts.push_back(cast);
  return casts;
}

std::vector<Isa> chosen_isas(const Options& options, Overflow overflow) {
  std::vector<Isa> isas;
  for (const std::string& name : options.isas) {
    force_isa(name);  // refuses what there is not
    isas.push_back(current_isa());
  }
  if (!isas.empty()) return isas;
  isas = supported_isas();
  return overflow == Overflow::special ? std::vector<Isa>{isas.back()} : isas;
}

int run(const Options& options) {
  const Threads threads{options.threads > 0 ? static_cast<int>(options.threads)
                                            : available_cores()};
  const std::vector<ElementCast> casts = chosen_casts(options);
  Comparison comparison(threads);
  Progress progress(static_cast<int64_t>(casts.size()) * kBatches);
  uint64_t differing = 0;
  for (const ElementCast& cast : casts)
    differing += comparison.run(cast, chosen_isas(options, cast.overflow), progress);
  fmt::print("{} casts, {} results differ, {:.1f} s on {} threads\n", casts.size(), differing,
             progress.elapsed(), threads.count);
  return differing == 0 ? 0 : 1;
}

}  // namespace
}  // namespace ng::exhaustive

int main(int argc, char** argv) {
  CLI::App app("the cpu backend's element encoding against the scalar definition, all 2^32 inputs");
  ng::exhaustive::Options options;
  app.add_option("--format", options.formats, "only this format of at most 8 bits; repeatable");
  app.add_option("--isa", options.isas, "only this instruction set; repeatable; auto: the widest");
  app.add_option("--overflow", options.overflow, "only this policy: saturate or special");
  app.add_option("--threads", options.threads, "0: one per core");
  CLI11_PARSE(app, argc, argv);
  try {
    return ng::exhaustive::run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "exhaustive_casts: {}\n", error.what());
    return 1;
  }
}
