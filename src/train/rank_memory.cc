#include "train/rank_memory.h"

#include <algorithm>
#include <numeric>

#include "model/ownership.h"
#include "model/tensor_parallel.h"
#include "model/weights.h"

namespace ng {
namespace {

using Shard = GradientRecipe::Shard;

/// More sequences than any step has.
constexpr int64_t kMostSequences = int64_t{1} << 20;

size_t& at(MemoryByKind& bytes, MemoryKind kind) { return bytes[static_cast<size_t>(kind)]; }

/// What of a parameter only its owner keeps.
std::vector<StoredSpec> owned_parts(const WeightParts& weight, std::vector<StoredSpec> states) {
  if (weight.master) states.push_back(*weight.master);
  if (weight.carry) states.push_back(*weight.carry);
  return states;
}

}  // namespace

size_t RankMemory::total() const { return std::accumulate(bytes.begin(), bytes.end(), gaps); }

RankPlan::RankPlan(const Backend& backend, const ModelConfig& model, const Recipe& recipe,
                   const RankLayout& layout)
    : backend_(backend),
      model_(model),
      recipe_(recipe),
      layout_(layout),
      parameters_(tensor_parallel_parts(planned_parameters(backend, model, recipe), layout.tensor)),
      flat_(deal_parameters(parameters_, recipe, model.layers, layout.data(), Shard::flat)),
      whole_(deal_parameters(parameters_, recipe, model.layers, layout.data(), Shard::tensor)),
      stored_(static_cast<size_t>(layout.data())) {
  add_stored();
}

const Partition& RankPlan::partition(Shard shard) const {
  return shard == Shard::flat ? flat_ : whole_;
}

const Partition& RankPlan::partition() const {
  return partition(recipe_.settings(0).gradient.shard);
}

void RankPlan::add_stored() {
  const auto optimizer = make_optimizer(
      recipe_.settings(0).optimizer,
      {.heads = model_.heads / layout_.tensor, .kv_heads = model_.kv_heads / layout_.tensor});
  std::vector<std::vector<StoredSpec>> owned;  // by parameter
  MemoryByKind whole{};
  for (const ParameterSpec& spec : parameters_) {
    const WeightParts weight = weight_parts(spec, weight_storage(recipe_, spec, model_.layers));
    at(whole, MemoryKind::weights) += weight.value.bytes();
    owned.push_back(owned_parts(weight, optimizer->states(spec)));
  }
  std::vector<size_t> owned_bytes(stored_.size());
  for (const Piece& piece : partition().pieces) {
    const auto parameter = static_cast<size_t>(piece.tensor);
    const auto owner = static_cast<size_t>(piece.owner);
    for (const StoredSpec& part : owned[parameter]) {
      const size_t bytes =
          part.part(piece.first_row, piece.rows, parameters_[parameter].rows).bytes();
      at(stored_[owner], part.spec.kind) += bytes;
      owned_bytes[owner] += bytes;
    }
  }
  for (MemoryByKind& rank : stored_)
    at(rank, MemoryKind::weights) += at(whole, MemoryKind::weights);
  most_owned_ = *std::max_element(owned_bytes.begin(), owned_bytes.end());
}

MemoryByKind RankPlan::share_of(int rank, MemoryByKind one, const StepSettings& settings) const {
  const auto tensor = static_cast<size_t>(layout_.tensor);
  const auto index = static_cast<size_t>(rank);
  for (const MemoryKind kind : {MemoryKind::weights, MemoryKind::master, MemoryKind::moments})
    at(one, kind) = stored_[index][static_cast<size_t>(kind)];
  for (const MemoryKind kind : {MemoryKind::reference, MemoryKind::gradients,
                                MemoryKind::activations, MemoryKind::operands, MemoryKind::logits})
    at(one, kind) /= tensor;
  const auto values = static_cast<size_t>(settings.sequences * settings.length * model_.width);
  const size_t bytes = recipe_.compute(0) == Compute::bf16 ? 2 : 4;
  at(one, MemoryKind::activations) += values * bytes / tensor * (tensor - 1);
  if (layout_.data() > 1)
    at(one, MemoryKind::gradients) += sizeof(float) * static_cast<size_t>(partition().loads[index]);
  return one;
}

RankMemory RankPlan::memory_of(int rank, const MemoryPlan& one,
                               const StepSettings& settings) const {
  return {.rank = rank,
          .bytes = share_of(rank, one.bytes, settings),
          .most = share_of(rank, one.most, settings),
          .gaps = one.gaps / static_cast<size_t>(layout_.tensor)};
}

MemoryOfRanks RankPlan::memory(const StepSettings& settings) const {
  const MemoryPlan one = plan_memory(backend_, model_, recipe_, RecomputePolicy::none, settings);
  MemoryOfRanks of_ranks;
  of_ranks.least = of_ranks.most = memory_of(0, one, settings);
  for (int rank = 1; rank < layout_.data(); ++rank) {
    const RankMemory memory = memory_of(rank, one, settings);
    if (memory.total() < of_ranks.least.total()) of_ranks.least = memory;
    if (memory.total() > of_ranks.most.total()) of_ranks.most = memory;
  }
  return of_ranks;
}

int64_t RankPlan::largest_batch(StepSettings settings, size_t bytes) const {
  const auto fits = [&](int64_t sequences) {
    settings.sequences = sequences;
    return memory(settings).most.total() <= bytes;
  };
  int64_t most = 0, beyond = 1;  // `most` fits, `beyond` may not
  while (beyond <= kMostSequences && fits(beyond)) {
    most = beyond;
    beyond *= 2;
  }
  beyond = std::min(beyond, kMostSequences + 1);
  while (beyond - most > 1) {
    const int64_t middle = most + (beyond - most) / 2;
    (fits(middle) ? most : beyond) = middle;
  }
  return settings.dpo ? most - most % 2 : most;  // whole pairs
}

}  // namespace ng
