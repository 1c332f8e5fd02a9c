#include "train/rank_traffic.h"

#include <numeric>

#include "model/weights.h"

namespace ng {
namespace {

uint64_t sum(const BytesByTraffic& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), uint64_t{0});
}

ActivationTraffic activation_traffic(const RankPlan& plan, const StepSettings& settings) {
  const RankLayout& layout = plan.layout();
  // Of a collective each rank sends its share to the others: (T-1)/T of the whole.
  const double share = static_cast<double>(layout.tensor - 1) / static_cast<double>(layout.tensor);
  const int64_t tokens = settings.sequences * settings.length * settings.micros;
  const int64_t half_blocks = 2 * plan.model().layers;
  const double values = share * static_cast<double>(tokens * plan.model().width * half_blocks);
  const auto times = [&](const ActivationBytes& bytes) {
    return ActivationBytes{.three = values * bytes.three, .five = values * bytes.five};
  };
  const Operand bf16 = operand_of("bf16");
  const Operand& gathered = plan.recipe().settings(0).communication.activations;
  return {.sent = times(activation_bytes(gathered, bf16)),
          .in_bf16 = times(activation_bytes(bf16, bf16))};
}

}  // namespace

std::vector<SentTensor> sent_tensors(std::span<const ParameterSpec> parameters,
                                     const Recipe& recipe, int64_t depth, WeightGather gather) {
  std::vector<SentTensor> tensors;
  for (const ParameterSpec& spec : parameters) {
    const Operand gradient = gradient_wire(recipe, spec);
    tensors.push_back(
        {.size = {spec.rows, spec.cols},
         .gradient = gradient,
         .weight = gather == WeightGather::as_stored ? weight_storage(recipe, spec, depth).storage
                                                     : weight_wire(recipe, spec, depth),
         .counts_saturation = recipe.settings(0).gradient.auto_scale && !gradient.is_fp32()});
  }
  return tensors;
}

double RunTraffic::payload() const {
  return static_cast<double>(sent[static_cast<size_t>(Traffic::gradients)] +
                             sent[static_cast<size_t>(Traffic::weights)]);
}

RunTraffic run_traffic(Model& model, const Recipe& recipe, WeightGather gather) {
  std::vector<ParameterSpec> specs;
  for (const Parameter& parameter : model.parameters()) specs.push_back(parameter.spec);
  const std::vector<SentTensor> tensors =
      sent_tensors(specs, recipe, model.config().layers, gather);
  RunTraffic traffic{.ranks = model.partition().ranks()};
  for (const BytesByTraffic& rank : traffic_by_rank(model.partition(), tensors))
    for (const Traffic kind : {Traffic::gradients, Traffic::weights, Traffic::scales})
      traffic.sent[static_cast<size_t>(kind)] += rank[static_cast<size_t>(kind)];
  const PayloadAgainst against = payload_against(tensors, traffic.ranks);
  for (size_t i = 0; i < traffic.baselines.size(); ++i)
    traffic.baselines[i] = against.baselines[i] * traffic.ranks;
  return traffic;
}

double PayloadAgainst::change(size_t baseline) const {
  return baselines[baseline] == 0 ? 0 : payload.total() / baselines[baseline] - 1;
}

double PayloadAgainst::change_of_narrow(size_t baseline) const {
  return baselines[baseline] == 0 ? 0 : narrowed[baseline] / baselines[baseline] - 1;
}

PayloadAgainst payload_against(std::span<const SentTensor> tensors, int ranks) {
  PayloadAgainst against{.payload = mean_payload(tensors, ranks)};
  for (size_t i = 0; i < against.baselines.size(); ++i) {
    const auto [name, gradient, weight] = kBaselines[i];
    against.baselines[i] = mean_payload(all_sent_as(tensors, gradient, weight), ranks).total();
    against.narrowed[i] = mean_payload(wide_sent_as(tensors, gradient, weight), ranks).total();
  }
  return against;
}

PayloadAgainst payload_of(const PublishedShape& shape, const Recipe& recipe) {
  return payload_against(
      sent_tensors(parameters_of_first_stage(shape), recipe, shape.config.layers),
      static_cast<int>(shape.data));
}

StepTraffic step_traffic(const RankPlan& plan, const StepSettings& settings) {
  const std::vector<SentTensor> tensors =
      sent_tensors(plan.parameters(), plan.recipe(), plan.model().layers);
  StepTraffic traffic{.mean = payload_against(tensors, plan.layout().data()),
                      .activations = activation_traffic(plan, settings)};
  const std::vector<BytesByTraffic> ranks = traffic_by_rank(plan.partition(), tensors);
  traffic.least = traffic.most = ranks[0];
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    if (sum(ranks[rank]) < sum(traffic.least)) {
      traffic.least = ranks[rank];
      traffic.least_rank = static_cast<int>(rank);
    }
    if (sum(ranks[rank]) > sum(traffic.most)) {
      traffic.most = ranks[rank];
      traffic.most_rank = static_cast<int>(rank);
    }
  }
  const auto activations = static_cast<uint64_t>(traffic.activations.sent.five);
  for (BytesByTraffic* bytes : {&traffic.least, &traffic.most})
    (*bytes)[static_cast<size_t>(Traffic::activations)] = activations;
  return traffic;
}

}  // namespace ng
