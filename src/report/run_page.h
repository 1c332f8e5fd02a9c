// report.html of one run.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "learned/bits.h"
#include "report/history.h"
#include "report/page.h"
#include "train/run_traffic.h"
#include "train/session.h"

namespace ng::report {

/// What metrics.jsonl does not say of a run.
struct RunFacts {
  std::string name;   ///< of the run file
  int64_t steps = 0;  ///< of the whole run
  int64_t parameters = 0;
  std::string machine;  ///< "AMD EPYC 9B45, avx512bf16, 2 threads", where it was trained last
  MemoryPlan memory, memory_in_fp32;
  RunTraffic traffic;
  std::vector<std::pair<std::string, std::string>> lines;  ///< model, text, schedule, ...
  std::string recipe;                                      ///< a line for each GEMM
  std::string recipe_toml, run_toml;
  std::vector<LearnedBits> bits;  ///< of the newest checkpoint
  int64_t bits_step = 0;          ///< that it is of
  std::string sample;             ///< of the trained model; empty before the end
};

[[nodiscard]] RunFacts facts_of(Session& session);

[[nodiscard]] Page run_page(const RunFacts& facts, const History& history);

/// Bars of what took time, the longest first, and of what takes memory.
[[nodiscard]] Bars time_bars(const std::string& title,
                             const std::map<std::string, double>& seconds);
[[nodiscard]] Bars memory_bars(const MemoryPlan& plan, int64_t parameters);

}  // namespace ng::report
