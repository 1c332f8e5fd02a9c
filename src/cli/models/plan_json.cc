#include "base/json.h"
#include "cli/models/plan_text.h"

namespace ng::cli {
namespace {

using Shard = GradientRecipe::Shard;

Json memory_json(const RankMemory& memory) {
  Json json = {{"rank", memory.rank}};
  for (size_t kind = 0; kind < kMemoryKinds; ++kind) {
    const std::string name(name_of(static_cast<MemoryKind>(kind)));
    json[name] = memory.bytes[kind];
    json["at_any_time"][name] = memory.most[kind];
  }
  json["gaps"] = memory.gaps;
  json["total"] = memory.total();
  return json;
}

Json sent_by_rank_json(const BytesByTraffic& bytes, int rank) {
  Json json = {{"rank", rank}};
  uint64_t total = 0;
  for (const Traffic kind : {Traffic::gradients, Traffic::weights, Traffic::activations,
                             Traffic::scales, Traffic::control}) {
    json[std::string(name_of(kind))] = bytes[static_cast<size_t>(kind)];
    total += bytes[static_cast<size_t>(kind)];
  }
  json["total"] = total;
  return json;
}

Json payload_json(const PayloadAgainst& against) {
  Json json = {{"gradients", against.payload.gradients},
               {"weights", against.payload.weights},
               {"total", against.payload.total()}};
  for (size_t i = 0; i < against.baselines.size(); ++i)
    json["baselines"][std::string(kBaselines[i].name)] = {
        {"bytes", against.baselines[i]},
        {"change", against.change(i)},
        {"change_of_narrow", against.change_of_narrow(i)}};
  return json;
}

Json activations_json(const ActivationTraffic& activations) {
  const auto of = [](double bytes, double in_bf16) {
    return Json{{"bytes", bytes},
                {"bytes_in_bf16", in_bf16},
                {"change", in_bf16 == 0 ? 0 : bytes / in_bf16 - 1}};
  };
  return {{"five_collectives", of(activations.sent.five, activations.in_bf16.five)},
          {"three_collectives", of(activations.sent.three, activations.in_bf16.three)}};
}

Json published_json(const PublishedShape& shape, const Planned& planned) {
  Json json = {
      {"tensor", shape.tensor},
      {"pipeline", shape.pipeline},
      {"data", shape.data},
      {"length", shape.config.context},
      {"payload", payload_json(payload_of(shape, planned.plan.recipe()))},
      {"published_gib", {{"fp32+bf16", shape.fp32_bf16_gib}, {"fp8-lm", shape.fp8_lm_gib}}}};
  for (const Fit& fit : planned.fits)
    json["fits"].push_back(
        {{"recipe", fit.recipe}, {"bytes", fit.bytes}, {"largest_batch", fit.largest_batch}});
  if (shape.memory)
    json["published_gb"] = {
        {"bf16", {{"1", shape.memory->bf16_of_one}}},
        {"fp8-lm", {{"1", shape.memory->fp8_lm_of_one}, {"4", shape.memory->fp8_lm_of_four}}}};
  return json;
}

Json sums_json(const RankSums& sums) {
  using Kind = RankSums::Kind;
  Json json = {{"kind", name_of(sums.kind)}};
  if (sums.kind == Kind::codes || sums.kind == Kind::ring)
    json["exact_ranks"] = {{"fp32", sums.exact.in_fp32}, {"fp64", sums.exact.in_fp64}};
  if (sums.kind == Kind::values) json["exact_exponents"] = sums.exact_exponents;
  return json;
}

Json many_json(const ManyRanks& many) {
  return {{"ranks", many.layout.ranks},
          {"data", many.layout.data()},
          {"nodes", many.nodes},
          {"payload", payload_json(many.payload)},
          {"bucket_bytes", many.bucket},
          {"bucket_bytes_to_each_rank", many.per_rank},
          {"bucket_bytes_to_each_node", many.per_node},
          {"amax_reduces", many.amax_reduces},
          {"amax_seconds", many.amax_seconds},
          {"amax_seconds_in_one", kSmallAllReduceSeconds},
          {"balance", {{"flat", many.balance_flat}, {"tensor", many.balance_tensor}}},
          {"wire", many.wire},
          {"sums", sums_json(many.sums)},
          {"owned_bytes", many.owned_bytes},
          {"checkpoint_bytes", many.checkpoint_bytes}};
}

int64_t parameters_of(const RankPlan& plan) {
  int64_t count = 0;
  for (const ParameterSpec& spec : plan.parameters()) count += spec.rows * spec.cols;
  return count;
}

/// What FP8-LM's authors say of RLHF, of a rank's bytes: weights of all models; all that training
/// keeps beside them, 16 bytes a parameter that become 6. [004]
Json preference_json(const RankMemory& memory, const RankMemory& in_bf16) {
  const auto bytes = [](const RankMemory& of, std::initializer_list<MemoryKind> kinds) {
    double sum = 0;
    for (const MemoryKind kind : kinds)
      sum += static_cast<double>(of.most[static_cast<size_t>(kind)]);
    return sum;
  };
  const auto against = [&](std::initializer_list<MemoryKind> kinds, double published) {
    const double own = bytes(memory, kinds), bf16 = bytes(in_bf16, kinds);
    return Json{{"bytes", own},
                {"bytes_in_bf16", bf16},
                {"change", own / bf16 - 1},
                {"published_change", published}};
  };
  // The paper's digest does not say what it counts: masters are weights or states.
  using Kind = MemoryKind;
  constexpr double kWeights = -0.32, kStates = -0.62;  // published
  return {
      {"weights", against({Kind::weights, Kind::reference}, kWeights)},
      {"weights_and_masters", against({Kind::weights, Kind::reference, Kind::master}, kWeights)},
      {"moments", against({Kind::moments}, kStates)},
      {"states", against({Kind::gradients, Kind::master, Kind::moments}, kStates)}};
}

Json pipeline_json(const Planned& planned) {
  Json json = {{"stage", planned.plan.stage().index},
               {"bubble_share", bubble_share(planned.plan.stage().of, planned.step.micros)}};
  for (const auto& [plan, most, sent] : planned.stages)
    json["stages"].push_back({{"first_block", plan.stage().first_block(plan.model())},
                              {"blocks", plan.stage().blocks(plan.model())},
                              {"parameters_of_rank", parameters_of(plan)},
                              {"in_flight", plan.stage().in_flight(planned.step.micros)},
                              {"memory", memory_json(most)},
                              {"sent_forward", sent.forward},
                              {"sent_backward", sent.backward},
                              {"payload", payload_of(plan).payload.total()}});
  return json;
}

}  // namespace

Json plan_json(const Planned& planned) {
  const RankPlan& plan = planned.plan;
  const bool flat = plan.recipe().settings(0).gradient.shard == Shard::flat;
  Json traffic = {{"mean_payload", payload_json(planned.traffic.mean)},
                  {"least", sent_by_rank_json(planned.traffic.least, planned.traffic.least_rank)},
                  {"most", sent_by_rank_json(planned.traffic.most, planned.traffic.most_rank)}};
  if (plan.layout().tensor > 1)
    traffic["activations"] = activations_json(planned.traffic.activations);
  Json json = {{"model", planned.model},
               {"recipe", plan.recipe().name()},
               {"ranks", plan.layout().ranks},
               {"tensor", plan.layout().tensor},
               {"data", plan.layout().data()},
               {"batch", planned.step.sequences},
               {"length", planned.step.length},
               {"accumulate", planned.step.micros},
               {"threads", kPlannedThreads},
               {"parameters_of_rank", parameters_of(plan)},
               {"memory",
                {{"least", memory_json(planned.memory.least)},
                 {"most", memory_json(planned.memory.most)},
                 {"one_process", memory_json(planned.one)}}},
               {"device_bytes", planned.device_bytes},
               {"largest_batch", planned.largest_batch},
               {"traffic", std::move(traffic)},
               {"shard", flat ? "flat" : "tensor"},
               {"balance",
                {{"flat", plan.partition(Shard::flat).balance()},
                 {"tensor", plan.partition(Shard::tensor).balance()}}}};
  if (planned.in_bf16) json["preference"] = preference_json(planned.memory.most, *planned.in_bf16);
  if (!planned.stages.empty()) json["pipeline"] = pipeline_json(planned);
  if (planned.many) json["many_ranks"] = many_json(*planned.many);
  if (planned.published != nullptr) json["published"] = published_json(*planned.published, planned);
  return json;
}

}  // namespace ng::cli
