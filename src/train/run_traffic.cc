#include "train/run_traffic.h"

#include "model/tensor_parallel.h"
#include "model/weights.h"
#include "train/trainer.h"

namespace ng {

ActivationTraffic activation_traffic(const HalfBlocks& of, const StepSettings& settings,
                                     RecomputePolicy recompute) {
  // Of a collective each rank sends its share to the others: (T-1)/T of the whole.
  const int64_t others = of.layout.tensor - 1, half_blocks = 2 * of.model.layers;
  const double share = static_cast<double>(others) / static_cast<double>(of.layout.tensor);
  const int64_t tokens = settings.sequences * settings.length * settings.micros;
  const double values = share * static_cast<double>(tokens * of.model.width * half_blocks);
  const auto times = [&](const ActivationBytes& bytes) {
    return ActivationBytes{.three = values * bytes.three, .five = values * bytes.five};
  };
  const TokenWires wires = token_wires(of.recipe);
  const Operand bf16 = operand_of("bf16");
  ActivationTraffic traffic{.sent = times(activation_bytes(wires.inputs, wires.sums)),
                            .in_bf16 = times(activation_bytes(bf16, bf16))};
  const MatrixSize slice{.rows = settings.sequences * settings.length / of.layout.tensor,
                         .cols = of.model.width};
  const auto messages = static_cast<uint64_t>(others * half_blocks * settings.micros);
  const uint64_t again = recompute == RecomputePolicy::block ? 1 : 0;
  const uint64_t gathers = messages * (3 + again), reduces = messages * (2 + again);
  traffic.elements =
      gathers * payload_bytes(wires.inputs, slice) + reduces * payload_bytes(wires.sums, slice);
  traffic.scales = gathers * block_scale_bytes(wires.inputs, slice) +
                   reduces * block_scale_bytes(wires.sums, slice);
  if (has_scale_of_all(wires.inputs)) traffic.control += gathers * sizeof(float);
  if (has_scale_of_all(wires.sums)) traffic.control += reduces * sizeof(float);
  return traffic;
}

SentGroup sent_group(std::span<const ParameterSpec> parameters, std::span<const SentTensor> all,
                     const Partition& dealt, const RankLayout& layout, bool is_cut) {
  SentGroup group;
  std::vector<int64_t> index(all.size(), -1);
  for (size_t i = 0; i < all.size(); ++i) {
    if (static_cast<bool>(parameters[i].cut) != is_cut) continue;
    index[i] = std::ssize(group.tensors);
    group.tensors.push_back(all[i]);
  }
  for (Piece piece : dealt.pieces) {
    piece.tensor = index[static_cast<size_t>(piece.tensor)];
    if (piece.tensor >= 0) group.partition.pieces.push_back(piece);
  }
  const int64_t ranks = is_cut ? layout.data() : layout.ranks;
  group.partition.loads.resize(static_cast<size_t>(ranks));  // their number is all that is asked
  return group;
}

std::vector<SentTensor> sent_tensors(std::span<const ParameterSpec> parameters,
                                     const Recipe& recipe, int64_t depth, WeightGather gather) {
  std::vector<SentTensor> tensors;
  for (const ParameterSpec& spec : parameters) {
    const Operand gradient = gradient_wire(recipe, spec);
    tensors.push_back(
        {.size = spec.is_frozen ? MatrixSize{} : MatrixSize{spec.rows, spec.cols},
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

RunTraffic run_traffic(Model& model, const Recipe& recipe, WeightGather gather,
                       const RankLayout& layout, const StepSettings& settings,
                       RecomputePolicy recompute) {
  std::vector<ParameterSpec> specs;
  for (const Parameter& parameter : model.parameters()) specs.push_back(parameter.spec);
  const std::vector<SentTensor> tensors =
      sent_tensors(specs, recipe, model.config().layers, gather);
  RunTraffic traffic{.ranks = static_cast<int>(layout.ranks)};
  for (const bool is_cut : {false, true}) {
    const SentGroup group = sent_group(specs, tensors, model.partition(), layout, is_cut);
    const int64_t groups = is_cut ? layout.tensor : 1;  // each with parts of the same size
    for (const BytesByTraffic& rank : traffic_by_rank(group.partition, group.tensors))
      for (const Traffic kind : {Traffic::gradients, Traffic::weights, Traffic::scales})
        traffic.sent[static_cast<size_t>(kind)] +=
            static_cast<uint64_t>(groups) * rank[static_cast<size_t>(kind)];
    const PayloadAgainst against = payload_against(group.tensors, group.partition.ranks());
    for (size_t i = 0; i < traffic.baselines.size(); ++i)
      traffic.baselines[i] += against.baselines[i] * static_cast<double>(layout.ranks);
  }
  const ActivationTraffic activations = activation_traffic(
      {.model = model.config(), .recipe = recipe, .layout = layout}, settings, recompute);
  const auto ranks = static_cast<uint64_t>(layout.ranks);
  traffic.sent[static_cast<size_t>(Traffic::activations)] = ranks * activations.elements;
  traffic.sent[static_cast<size_t>(Traffic::scales)] += ranks * activations.scales;
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

}  // namespace ng
