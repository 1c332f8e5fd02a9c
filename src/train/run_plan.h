// What a run would read and do, before anything is done.
#pragma once

#include <functional>
#include <string>

#include "base/json_fwd.h"
#include "comm/comm.h"
#include "train/run_config.h"

namespace ng {

/// Everything a run of the file reads, opened and looked at as a session does before it takes
/// memory: files read and left out, what validates, recipe and phases, steps and tokens, seeds, and
/// `notes` of what to beware of. Writes nothing. Throws what a session would of the run file, its
/// texts and its recipe. `resumed`: the folder of the run that is to go on; empty: a new one.
[[nodiscard]] Json run_plan(const RunConfig& config, Comm* comm, const std::string& resumed);

}  // namespace ng
