// What training takes of memory on each rank, and which rank keeps what of the model.
//
// Weights lie whole on every rank, as they are sent. Masters, carries and optimizer states of a
// parameter lie where its rows are owned (comm/partition.h). A rank's step is recorded as one
// process records its own (train/memory_plan.h): what is planned is what it allocates.
// [distributed.md §3; Rajbhandari et al. 2020, ZeRO]
#pragma once

#include <vector>

#include "comm/partition.h"
#include "model/ownership.h"
#include "plan/stage.h"
#include "train/memory_plan.h"
#include "train/run_traffic.h"
#include "train/trainer.h"

namespace ng {

/// Of a step on one rank.
struct RankMemory {
  int rank = 0;
  MemoryByKind bytes{};  ///< live at the peak
  MemoryByKind most{};   ///< of each kind at any time
  size_t gaps = 0;
  [[nodiscard]] size_t total() const;
};

/// The ranks with the least and the most.
struct MemoryOfRanks {
  RankMemory least, most;
};

class RankPlan {
 public:
  /// Takes none of the model's memory. `tensor` divides `ranks` and the model.
  /// `stage` of a pipeline divides the model's blocks; `layout` is of its ranks alone.
  RankPlan(const Backend& backend, const ModelConfig& model, const Recipe& recipe,
           const RankLayout& layout, const Stage& stage = {});

  [[nodiscard]] const ModelConfig& model() const { return model_; }
  [[nodiscard]] const Recipe& recipe() const { return recipe_; }
  [[nodiscard]] const RankLayout& layout() const { return layout_; }
  [[nodiscard]] const Stage& stage() const { return stage_; }
  /// As a rank of a tensor-parallel group and of the stage has them.
  [[nodiscard]] const std::vector<ParameterSpec>& parameters() const { return parameters_; }
  [[nodiscard]] const Partition& partition(GradientRecipe::Shard shard) const;
  /// The one that the recipe names.
  [[nodiscard]] const Partition& partition() const;

  /// Weights, masters and moments of every rank.
  [[nodiscard]] const std::vector<MemoryByKind>& stored_by_rank() const { return stored_; }
  /// Those bytes that only their owner has, of the rank that has most of them.
  [[nodiscard]] size_t most_owned_bytes() const { return most_owned_; }

  /// Of up to 16 ranks every one is planned, of more those with the extremes of what they own. With
  /// `tensor` > 1 activations, operands, logits and a reference's weights count as divided by it,
  /// gradients by the share of the parameters, and one layer's input as gathered: an estimate,
  /// where all else is what is allocated. Of a stage, whose passes of several micro-batches take
  /// turns, every kind counts with its most at once, activations by the blocks in flight and one
  /// more for what its backward pass holds: an estimate, too.
  [[nodiscard]] MemoryOfRanks memory(const StepSettings& settings) const;
  /// The most sequences in a micro-batch that every rank holds in `bytes`; 0: not one.
  [[nodiscard]] int64_t largest_batch(StepSettings settings, size_t bytes) const;

 private:
  [[nodiscard]] std::vector<ParameterSpec> own_parameters(std::vector<ParameterSpec> all);
  void add_stored();
  /// The ranks that own a piece: of a part of a layer, one for each part.
  [[nodiscard]] std::vector<size_t> owners_of(const Piece& piece) const;
  [[nodiscard]] std::vector<int> planned_ranks() const;
  /// Of the model as if no tensor group or pipeline divided it.
  [[nodiscard]] MemoryPlan plan_of(int rank, const StepSettings& settings) const;
  [[nodiscard]] RankMemory memory_of(int rank, const StepSettings& settings) const;
  [[nodiscard]] MemoryByKind share_of(int rank, MemoryByKind one,
                                      const StepSettings& settings) const;

  const Backend& backend_;
  ModelConfig model_;
  Recipe recipe_;
  RankLayout layout_;
  Stage stage_;
  double share_of_values_ = 1;  ///< of the model's parameters
  std::vector<ParameterSpec> parameters_;
  Partition flat_, whole_;
  std::vector<MemoryByKind> stored_;
  size_t most_owned_ = 0;
};

}  // namespace ng
