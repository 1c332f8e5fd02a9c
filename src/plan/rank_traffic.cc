#include "plan/rank_traffic.h"

#include <algorithm>
#include <numeric>

namespace ng {
namespace {

uint64_t sum(const BytesByTraffic& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), uint64_t{0});
}

SentGroup group_of(const RankPlan& plan, bool is_cut) {
  return sent_group(plan.parameters(),
                    sent_tensors(plan.parameters(), plan.recipe(), plan.model().layers),
                    plan.partition(), plan.layout(), is_cut);
}

void add(MeanPayload& sum, const MeanPayload& more) {
  sum.gradients += more.gradients;
  sum.weights += more.weights;
}

}  // namespace

PayloadAgainst payload_of(const PublishedShape& shape, const Recipe& recipe) {
  return payload_against(
      sent_tensors(parameters_of_first_stage(shape), recipe, shape.config.layers),
      static_cast<int>(shape.data));
}

PayloadAgainst payload_of(const RankPlan& plan) {
  PayloadAgainst sum;
  for (const bool is_cut : {false, true}) {
    const SentGroup group = group_of(plan, is_cut);
    const PayloadAgainst part = payload_against(group.tensors, group.partition.ranks());
    add(sum.payload, part.payload);
    for (size_t i = 0; i < sum.baselines.size(); ++i) {
      sum.baselines[i] += part.baselines[i];
      sum.narrowed[i] += part.narrowed[i];
    }
  }
  return sum;
}

StepTraffic step_traffic(const RankPlan& plan, const StepSettings& settings) {
  ModelConfig blocks = plan.model();
  blocks.layers = plan.stage().blocks(plan.model());
  StepTraffic traffic{.mean = payload_of(plan),
                      .activations = activation_traffic(
                          {.model = blocks, .recipe = plan.recipe(), .layout = plan.layout()},
                          settings, RecomputePolicy::none)};
  const SentGroup whole = group_of(plan, false), cut = group_of(plan, true);
  std::vector<BytesByTraffic> ranks = traffic_by_rank(whole.partition, whole.tensors);
  const std::vector<BytesByTraffic> of_parts = traffic_by_rank(cut.partition, cut.tensors);
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    add(ranks[rank], of_parts[rank / static_cast<size_t>(plan.layout().tensor)]);
  const auto least = std::ranges::min_element(ranks, {}, sum);
  const auto most = std::ranges::max_element(ranks, {}, sum);
  traffic.least = *least;
  traffic.most = *most;
  traffic.least_rank = static_cast<int>(least - ranks.begin());
  traffic.most_rank = static_cast<int>(most - ranks.begin());
  const ActivationTraffic& activations = traffic.activations;
  for (BytesByTraffic* bytes : {&traffic.least, &traffic.most}) {
    (*bytes)[static_cast<size_t>(Traffic::activations)] += activations.elements;
    (*bytes)[static_cast<size_t>(Traffic::scales)] += activations.scales;
    (*bytes)[static_cast<size_t>(Traffic::control)] += activations.control;
  }
  return traffic;
}

}  // namespace ng
