// What the ranks of a session must agree on before they train, which all of them call, and send.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "comm/comm.h"
#include "data/training_data.h"
#include "io/checkpoint_files.h"
#include "train/run_config.h"
#include "train/run_traffic.h"
#include "train/trainer.h"

namespace ng {

class Session;

/// The rank that writes files and speaks.
inline constexpr int kWriter = 0;

/// io::newest_whole_checkpoint as the rank that writes finds it; none where there is no checkpoint.
/// Throws Error on all ranks where there are, but none is whole, and where one does not see that
/// folder.
[[nodiscard]] std::optional<io::CheckpointEntry> newest_checkpoint_of_all(
    Comm& comm, const std::string& folder,
    const std::function<void(const std::string& why)>& damaged);

/// Before a model is made. Throws Error on all ranks where one would train something else.
void require_equal_inputs(Comm& comm, const RunConfig& config, const Recipe& recipe,
                          const TrainingData& data);
/// Throws Error on all ranks where the same numbers come out otherwise on the CPU of one: the loss
/// of one batch, of the shapes that will be trained.
void require_equal_results(Comm& comm, uint64_t seed, const TrainingData& data, Trainer& trainer);

/// What its ranks send in a step.
[[nodiscard]] RunTraffic traffic_of(Session& session);

}  // namespace ng
