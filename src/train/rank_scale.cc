#include "train/rank_scale.h"

#include <algorithm>
#include <numeric>

namespace ng {
namespace {

using Shard = GradientRecipe::Shard;

bool has_one_scale(const Operand& cast) {
  return !cast.is_unscaled() &&
         (cast.block.kind == Block::Kind::tensor || cast.tensor_scale != ScaleKind::none);
}

/// Weights, masters and states, each once.
size_t checkpoint_bytes(const RankPlan& one) {
  const MemoryByKind& stored = one.stored_by_rank().front();
  return std::accumulate(stored.begin(), stored.end(), size_t{0});
}

// Where no scale is of more than the rows of a piece.
double balance_of_rows(std::span<const SentTensor> tensors, int ranks) {
  std::vector<MatrixSize> sizes;
  for (const SentTensor& tensor : tensors) sizes.push_back(tensor.size);
  return partition(sizes, ranks, Shard::flat).balance();
}

}  // namespace

ManyRanks at_many_ranks(const Backend& backend, const RankPlan& plan) {
  const int64_t tensor = plan.layout().tensor;
  const RankPlan many(backend, plan.model(), plan.recipe(),
                      {.ranks = kManyRanks / tensor * tensor, .tensor = tensor});
  const RankPlan one(backend, plan.model(), plan.recipe(), {});
  const std::vector<SentTensor> tensors =
      sent_tensors(plan.parameters(), plan.recipe(), plan.model().layers);
  const int64_t data = many.layout().data();
  const Operand& wire = plan.recipe().settings(0).gradient.communicate;
  ManyRanks result{.layout = many.layout(),
                   .payload = payload_of(many),
                   .nodes = (many.layout().ranks + kRanksOfNode - 1) / kRanksOfNode,
                   .balance_tensor = many.partition(Shard::tensor).balance(),
                   .balance_flat = balance_of_rows(tensors, static_cast<int>(data)),
                   .wire = wire.element->short_name,
                   .exact = exact_ranks(*wire.element),
                   .shares_scale = !wire.is_unscaled() && wire.block.kind == Block::Kind::tensor,
                   .owned_bytes = many.most_owned_bytes(),
                   .checkpoint_bytes = checkpoint_bytes(one)};
  result.nodes = std::min(result.nodes, data);
  double gradients = 0;
  for (const SentTensor& sent : tensors) {
    gradients += static_cast<double>(payload_bytes(sent.gradient, sent.size));
    result.amax_reduces += has_one_scale(sent.gradient) ? 1 : 0;
  }
  result.bucket = std::min(kBucketBytes, gradients);
  result.per_rank = result.bucket / static_cast<double>(data);
  result.per_node = result.bucket / static_cast<double>(result.nodes);
  result.amax_seconds = static_cast<double>(result.amax_reduces) * kSmallAllReduceSeconds;
  return result;
}

}  // namespace ng
