// What the ranks of a run send in a step of training by a recipe, against both baselines.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "comm/traffic.h"
#include "model/model.h"
#include "model/ownership.h"
#include "recipe/recipe.h"

namespace ng {

struct StepSettings;

/// `ranks` in all; groups of `tensor` of them divide every layer, and each of such a group is one
/// of ranks / tensor that divide the batch and the states.
struct RankLayout {
  int64_t ranks = 1, tensor = 1;
  [[nodiscard]] int data() const { return static_cast<int>(ranks / tensor); }
  [[nodiscard]] RankCounts counts() const {
    return {.data = data(), .tensor = static_cast<int>(tensor)};
  }
};

/// The parameters as a recipe sends them, in a model of `depth` blocks.
[[nodiscard]] std::vector<SentTensor> sent_tensors(std::span<const ParameterSpec> parameters,
                                                   const Recipe& recipe, int64_t depth,
                                                   WeightGather gather = WeightGather::as_sent);

/// Gradients and weights, mean over ranks, in bytes; and what the baselines would send.
struct PayloadAgainst {
  MeanPayload payload;
  std::array<double, std::size(kBaselines)> baselines{};
  /// What would be sent, were all that goes in 16 bits or more sent as the baseline sends it.
  std::array<double, std::size(kBaselines)> narrowed{};
  /// -0.63: 63 % less than the baseline; 0 where that sends nothing. Of what is sent, and of what
  /// narrowing alone changes.
  [[nodiscard]] double change(size_t baseline) const;
  [[nodiscard]] double change_of_narrow(size_t baseline) const;
};
[[nodiscard]] PayloadAgainst payload_against(std::span<const SentTensor> tensors, int ranks);

/// Inputs and outputs of half blocks between the ranks of a tensor-parallel group, with sequence
/// parallelism; a rank's bytes in a step. Embedding and head work on slices of tokens.
struct ActivationTraffic {
  ActivationBytes sent;     ///< as communication.activations and .sums
  ActivationBytes in_bf16;  ///< all of it in BF16
  /// What transports count: elements of `sent.five`, and of one gather and one sum more where
  /// blocks are run a second time (train.recompute); scales of blocks; the amax of what has one
  /// scale for all ranks.
  uint64_t elements = 0, scales = 0, control = 0;
};

/// What a layout sends of half blocks.
struct HalfBlocks {
  const ModelConfig& model;
  const Recipe& recipe;
  const RankLayout& layout;
};
[[nodiscard]] ActivationTraffic activation_traffic(const HalfBlocks& of,
                                                   const StepSettings& settings,
                                                   RecomputePolicy recompute);

/// Parameters that ranks of a tensor group have parts of, or the others, and who owns them.
struct SentGroup {
  std::vector<SentTensor> tensors;
  Partition partition;
};
[[nodiscard]] SentGroup sent_group(std::span<const ParameterSpec> parameters,
                                   std::span<const SentTensor> all, const Partition& dealt,
                                   const RankLayout& layout, bool is_cut);

/// A step of a run: all of its ranks together.
struct RunTraffic {
  int ranks = 1;
  BytesByTraffic sent{};  ///< what transports will count, but of control
  /// What gradients and weights would be, were all sent as the baselines send them.
  std::array<double, std::size(kBaselines)> baselines{};

  /// Gradients and weights.
  [[nodiscard]] double payload() const;
  /// -0.63: 63 % less than the baseline.
  [[nodiscard]] double change(size_t baseline) const { return payload() / baselines[baseline] - 1; }
};
[[nodiscard]] RunTraffic run_traffic(Model& model, const Recipe& recipe, WeightGather gather,
                                     const RankLayout& layout, const StepSettings& settings,
                                     RecomputePolicy recompute);

}  // namespace ng
