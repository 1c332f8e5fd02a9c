// The commands below narrowgauge bench, and what they share.
#pragma once

#include <string>

#include "backend/backend.h"
#include "base/json_fwd.h"
#include "base/threads.h"
#include "cli/command.h"

namespace ng::cli {

extern const Command kBenchStep, kBenchGemm, kBenchKernels, kBenchUpdate;

/// This program, the machine, the instruction set and the threads: where a bench's JSON begins.
[[nodiscard]] Json machine_json(Threads threads);
/// And the device, where one computes.
[[nodiscard]] Json machine_json(const Backend& backend, Threads threads);

/// A matrix that a bench works on.
struct Footprint {
  std::string name;   ///< key of its results
  std::string holds;  ///< what it lies in
  int64_t rows;
  int64_t cols;
};

}  // namespace ng::cli
