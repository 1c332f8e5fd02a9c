#include "plan/rank_scale.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "comm/gradient_pieces.h"
#include "nn/tensor_group.h"

namespace ng {
namespace {

using Shard = GradientRecipe::Shard;

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

/// Of what is added: an element's own where no scale or a power of two multiplies it, else FP32's.
int significant_bits(const Operand& cast) {
  const bool keeps_bits =
      ranks_share_scale(cast) || (cast.tensor_scale != ScaleKind::fp32 &&
                                  cast.scale != ScaleKind::fp32 && cast.scale != ScaleKind::e4m3);
  const ElementFormat& element = keeps_bits ? *cast.element : fp32_format();
  return element.kind == ElementKind::integer ? element.bits - 1 : element.mantissa_bits + 1;
}

}  // namespace

std::string_view name_of(RankSums::Kind kind) {
  constexpr std::array<std::string_view, 4> kNames = {"tree", "ring", "codes", "values"};
  return kNames[static_cast<size_t>(kind)];
}

RankSums sums_of_ranks(const GradientRecipe& gradient, int64_t ranks) {
  using Kind = RankSums::Kind;
  const Operand& wire = gradient.communicate;
  if (wire.is_fp32()) return {.kind = Kind::tree};
  const ExactRanks exact = exact_ranks(*wire.element);
  if (gradient.reduce == GradientRecipe::Reduce::wire) return {.kind = Kind::ring, .exact = exact};
  const bool has_one_unit = wire.is_unscaled() || ranks_share_scale(wire);
  if (has_one_unit && ranks <= exact.in_fp64) return {.kind = Kind::codes, .exact = exact};
  return {.kind = Kind::values, .exact_exponents = exact_exponents(significant_bits(wire), ranks)};
}

std::optional<ManyRanks> at_many_ranks(const Backend& backend, const RankPlan& plan) {
  const int64_t tensor = plan.layout().tensor;
  if (plan.layout().ranks >= kManyRanks / tensor * tensor) return {};
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
                   .wire = describe(wire),
                   .sums = sums_of_ranks(plan.recipe().settings(0).gradient, data),
                   .owned_bytes = many.most_owned_bytes(),
                   .checkpoint_bytes = checkpoint_bytes(one)};
  result.nodes = std::min(result.nodes, data);
  double gradients = 0;
  for (const SentTensor& sent : tensors) {
    gradients += static_cast<double>(payload_bytes(sent.gradient, sent.size));
    result.amax_reduces += has_scale_of_all(sent.gradient) ? 1 : 0;
  }
  result.bucket = std::min(kBucketBytes, gradients);
  result.per_rank = result.bucket / static_cast<double>(data);
  result.per_node = result.bucket / static_cast<double>(result.nodes);
  result.amax_seconds = static_cast<double>(result.amax_reduces) * kSmallAllReduceSeconds;
  return result;
}

}  // namespace ng
