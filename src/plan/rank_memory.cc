#include "plan/rank_memory.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "model/ownership.h"
#include "model/tensor_parallel.h"
#include "model/weights.h"
#include "recipe/matches.h"

namespace ng {
namespace {

using Shard = GradientRecipe::Shard;

constexpr size_t kFewRanks = 16;

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
                   const RankLayout& layout, const Stage& stage)
    : backend_(backend),
      model_(model),
      recipe_(recipe),
      layout_(layout),
      stage_(stage),
      parameters_(own_parameters(planned_parameters(backend, model, recipe))),
      flat_(deal_parameters(parameters_, recipe, model.layers, layout.counts(), Shard::flat,
                            WeightGather::as_sent)),
      whole_(deal_parameters(parameters_, recipe, model.layers, layout.counts(), Shard::tensor,
                             WeightGather::as_sent)),
      stored_(static_cast<size_t>(layout.ranks)) {
  require_matches(recipe, layers_of(model));
  add_stored();
}

std::vector<ParameterSpec> RankPlan::own_parameters(std::vector<ParameterSpec> all) {
  const auto values = [](const std::vector<ParameterSpec>& specs) {
    double sum = 0;
    for (const ParameterSpec& spec : specs) sum += static_cast<double>(spec.rows * spec.cols);
    return sum;
  };
  const double of_all = values(all);
  std::erase_if(all, [&](const ParameterSpec& spec) { return !stage_.has(spec, model_); });
  std::vector<ParameterSpec> own = tensor_parallel_parts(std::move(all), layout_.tensor);
  share_of_values_ = values(own) / of_all;
  return own;
}

const Partition& RankPlan::partition(Shard shard) const {
  return shard == Shard::flat ? flat_ : whole_;
}

const Partition& RankPlan::partition() const {
  return partition(recipe_.settings(0).gradient.shard);
}

std::vector<size_t> RankPlan::owners_of(const Piece& piece) const {
  const auto owner = static_cast<size_t>(piece.owner);
  if (!parameters_[static_cast<size_t>(piece.tensor)].cut) return {owner};
  std::vector<size_t> ranks(static_cast<size_t>(layout_.tensor));
  std::iota(ranks.begin(), ranks.end(), owner * ranks.size());
  return ranks;
}

void RankPlan::add_stored() {
  const auto optimizer = make_optimizer(
      recipe_.settings(0).optimizer,
      {.heads = model_.heads / layout_.tensor, .kv_heads = model_.kv_heads / layout_.tensor});
  std::vector<std::vector<StoredSpec>> owned;  // by parameter
  MemoryByKind whole{};
  const auto gather_of = [&](const ParameterSpec& spec) {
    const int64_t ranks = spec.cut ? layout_.data() : layout_.ranks;
    return gather_among(static_cast<int>(ranks), WeightGather::as_sent);
  };
  for (const ParameterSpec& spec : parameters_) {
    const WeightParts weight =
        weight_parts(spec, kept_weight(recipe_, spec, model_.layers, gather_of(spec)));
    at(whole, MemoryKind::weights) += weight.value.bytes();
    owned.push_back(owned_parts(weight, optimizer->states(spec)));
  }
  std::vector<size_t> owned_bytes(stored_.size());
  for (const Piece& piece : partition().pieces) {
    const auto parameter = static_cast<size_t>(piece.tensor);
    for (const StoredSpec& part : owned[parameter]) {
      const size_t bytes =
          part.part(piece.first_row, piece.rows, parameters_[parameter].rows).bytes();
      for (const size_t owner : owners_of(piece)) {
        at(stored_[owner], part.spec.kind) += bytes;
        owned_bytes[owner] += bytes;
      }
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
  for (const MemoryKind kind :
       {MemoryKind::reference, MemoryKind::activations, MemoryKind::operands, MemoryKind::logits})
    at(one, kind) /= tensor;
  const auto scale = [&](MemoryKind kind, double share) {
    at(one, kind) = static_cast<size_t>(static_cast<double>(at(one, kind)) * share);
  };
  scale(MemoryKind::gradients, share_of_values_);
  if (stage_.of > 1) {
    const auto own = static_cast<double>(stage_.blocks(model_) * stage_.in_flight(settings.micros));
    scale(MemoryKind::activations, std::min(1.0, (own + 1) / static_cast<double>(model_.layers)));
    scale(MemoryKind::reference, share_of_values_ * static_cast<double>(tensor));
    if (!stage_.is_last()) at(one, MemoryKind::logits) = 0;
  }
  const auto values = static_cast<size_t>(settings.sequences * settings.length * model_.width);
  const size_t bytes = recipe_.compute(0) == Compute::bf16 ? 2 : 4;
  at(one, MemoryKind::activations) += values * bytes / tensor * (tensor - 1);
  return one;
}

MemoryPlan RankPlan::plan_of(int rank, const StepSettings& settings) const {
  // What is divided here by its kind alone, and no ranks that divide layers keep operands.
  const bool divides = layout_.tensor > 1 || stage_.of > 1;
  const auto recompute = divides ? RecomputePolicy::inputs : RecomputePolicy::none;
  return plan_memory(backend_, model_, recipe_, recompute, settings,
                     rank / static_cast<int>(layout_.tensor), layout_.data());
}

RankMemory RankPlan::memory_of(int rank, const StepSettings& settings) const {
  const MemoryPlan plan = plan_of(rank, settings);
  if (stage_.of > 1) {
    MemoryByKind most = plan.most;
    if (settings.micros > 1) {
      StepSettings one = settings;
      one.micros = 1;
      // What more micro-batches keep of operands are those of weights, which each reads.
      MemoryByKind first = plan_of(rank, one).most;
      size_t& operands = at(most, MemoryKind::operands);
      const size_t of_one = std::min(operands, at(first, MemoryKind::operands));
      operands = of_one + (operands - of_one) / static_cast<size_t>(stage_.of);
    }
    most = share_of(rank, most, settings);
    return {.rank = rank, .bytes = most, .most = most};
  }
  if (layout_.tensor == 1)
    return {.rank = rank, .bytes = plan.bytes, .most = plan.most, .gaps = plan.gaps};
  return {.rank = rank,
          .bytes = share_of(rank, plan.bytes, settings),
          .most = share_of(rank, plan.most, settings),
          .gaps = plan.gaps / static_cast<size_t>(layout_.tensor)};
}

// All of few. Of many, whose steps would take long to record, those that have the most and the
// least to keep and to sum: what others have on the way differs from theirs by buckets.
std::vector<int> RankPlan::planned_ranks() const {
  std::vector<int> ranks(std::min<size_t>(stored_.size(), kFewRanks));
  std::iota(ranks.begin(), ranks.end(), 0);
  if (ranks.size() == stored_.size()) return ranks;
  ranks.clear();
  const auto at_most = [&](const auto& values) {
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    return std::array{static_cast<int>(least - values.begin()),
                      static_cast<int>(most - values.begin())};
  };
  std::vector<size_t> stored;
  for (const MemoryByKind& bytes : stored_)
    stored.push_back(std::accumulate(bytes.begin(), bytes.end(), size_t{0}));
  for (const auto& pair : {at_most(stored), at_most(partition().loads)})
    ranks.insert(ranks.end(), pair.begin(), pair.end());
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

MemoryOfRanks RankPlan::memory(const StepSettings& settings) const {
  MemoryOfRanks of_ranks;
  for (const int rank : planned_ranks()) {
    const RankMemory memory = memory_of(rank, settings);
    if (of_ranks.least.total() == 0 || memory.total() < of_ranks.least.total())
      of_ranks.least = memory;
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
