// Ranks as threads of one process: what many processes do, at the cost of a test.
#pragma once

#include <functional>

#include "comm/comm.h"

namespace ng {

/// Runs body(comm) once for each of `ranks` ranks, each in a thread of its own, and returns when
/// all have ended. The first exception that leaves a body is rethrown here. A rank that has ended
/// sends nothing more: whoever waits for it gets an Error instead.
void run_ranks(int ranks, const std::function<void(Comm&)>& body);

}  // namespace ng
