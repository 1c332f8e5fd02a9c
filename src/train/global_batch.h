// A step has as many micro-batches as the run was started with, whoever shares them: the global
// batch stays when other ranks go on. [distributed.md §6]
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "comm/comm.h"
#include "train/run_config.h"

namespace ng {

/// The most ranks, but no more than `limit` >= 1, that can share so many micro-batches equally.
[[nodiscard]] int most_ranks(int64_t micros, int limit);

/// Throws Error at `place` where `ranks` cannot share the micro-batches of a step equally; names
/// those numbers of ranks up to twice as many that can.
void require_shared_equally(int64_t micros, int ranks, const std::string& place);

/// The micro-batches of a step by the newest checkpoint in `folder` that says so; none where there
/// is none. What is damaged otherwise is not looked for.
[[nodiscard]] std::optional<int64_t> saved_micros(const std::string& folder);

/// Before a run goes on from the checkpoints in `folder`: train.accumulate becomes what their
/// micro-batches are to each of `comm` (null: this process alone), and `notice` hears of another
/// value than the one that was given. Throws Error on all ranks that cannot share them equally.
void keep_global_batch(Comm* comm, const std::string& folder, RunConfig& config,
                       const std::function<void(const std::string&)>& notice);

}  // namespace ng
