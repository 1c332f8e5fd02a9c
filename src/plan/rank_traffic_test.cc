// Traffic of whole models by their recipes: published volumes, and which parameters are narrow.
#include "plan/rank_traffic.h"

#include <gtest/gtest.h>

#include "model/weights.h"
#include "plan/rank_scale.h"
#include "run/backends.h"
#include "support/golden_file.h"

namespace ng {
namespace {

Recipe traffic_recipe(const std::string& keys) {
  return Recipe::parse("name='t'\n" + keys, "test.toml");
}

TEST(RankTraffic, VolumesOfPublishedShapesAreThoseOfTheGoldenFile) {
  const GoldenFile file("fp8lm/traffic");
  const Recipe fp8_lm = Recipe::load("fp8-lm");
  const std::pair<const char*, const char*> names[] = {
      {"gpt-7b", "gpt_7b"}, {"gpt-13b", "gpt_13b_tp2"}, {"gpt-175b", "gpt_175b_tp8_pp4"}};
  for (const auto& [name, of_file] : names) {
    SCOPED_TRACE(name);
    const PublishedShape* shape = find_published_shape(name);
    ASSERT_NE(shape, nullptr);
    const PayloadAgainst against = payload_of(*shape, fp8_lm);
    const std::vector<double> want = file.doubles(std::string(of_file) + ".bytes");
    EXPECT_EQ(against.baselines[0], want[0]);
    EXPECT_EQ(against.baselines[1], want[1]);
    EXPECT_EQ(against.payload.total(), want[2]);
    const Json& of_case = file.cases()[of_file];  // in four digits
    EXPECT_NEAR(against.change(0), of_case["change_from_fp32_bf16"].get<double>(), 0.5e-4);
    EXPECT_EQ(against.narrowed[1], want[3]);
    EXPECT_NEAR(against.change_of_narrow(1), of_case["change_from_bf16_bf16"].get<double>(),
                0.5e-4);
    EXPECT_GT(against.change(1), against.change_of_narrow(1)) << "the rest goes in FP32";
    EXPECT_EQ(shape->data, of_case["data_parallel"].get<int64_t>());
  }
  EXPECT_EQ(find_published_shape("gpt-8b"), nullptr);
}

TEST(RankTraffic, OfATrainersModelIsThatOfTheGoldenFile) {
  const GoldenFile file("fp8lm/traffic");
  const auto backend = make_backend("ref", Threads{1});
  const RankPlan plan(*backend, model_preset("gpt2-124m"), Recipe::load("fp8-lm"), {.ranks = 4});
  const StepTraffic traffic = step_traffic(plan, {.sequences = 1, .length = 64, .optimizer = {}});
  const std::vector<double> want = file.doubles("gpt2_124m.bytes");
  EXPECT_EQ(traffic.mean.baselines[0], want[0]);
  EXPECT_EQ(traffic.mean.baselines[1], want[1]);
  EXPECT_EQ(traffic.mean.payload.total(), want[2]);
  // Whole tensors: the embedding's owner sends most. [golden fp8lm/partition, gpt2_124m.n4]
  const auto payload = [](const BytesByTraffic& bytes) {
    return bytes[static_cast<size_t>(Traffic::gradients)] +
           bytes[static_cast<size_t>(Traffic::weights)];
  };
  EXPECT_EQ(traffic.most_rank, 0);
  EXPECT_EQ(payload(traffic.most), 320150016u);
  EXPECT_EQ(payload(traffic.least), 299821056u);
}

/// "gradient weight" of a parameter, as elements.
std::string wires(const Recipe& recipe, const std::string& name) {
  for (const ParameterSpec& spec : parameter_table(model_preset("llama-134m")))
    if (spec.name == name)
      return fmt::format("{} {}", gradient_wire(recipe, spec).element->short_name,
                         weight_wire(recipe, spec, 12).element->short_name);
  return "no such parameter";
}

TEST(RankTraffic, NarrowAreTheWeightsOfBlocksAndBf16Matrices) {
  struct Row {
    const char* keys;
    const char *block, *outside, *vector;
  };
  for (const Row& row :
       {Row{"inherit='fp32'", "fp32 fp32", "fp32 fp32", "fp32 fp32"},
        Row{"inherit='bf16'", "fp32 bf16", "fp32 bf16", "fp32 bf16"},
        Row{"inherit='bf16'\ncommunication.weights='fp32'", "fp32 fp32", "fp32 fp32", "fp32 fp32"},
        Row{"inherit='fp8-lm'", "e4m3 e4m3", "fp32 bf16", "fp32 bf16"},
        Row{"communication.weights='fp8_e4m3'", "fp32 e4m3", "fp32 fp32", "fp32 fp32"},
        Row{"inherit='bf16'\ncommunication.weights='fp8_e4m3'", "fp32 e4m3", "fp32 bf16",
            "fp32 bf16"},
        Row{"inherit='naive-bf16'\ncommunication.weights='fp32'", "fp32 bf16", "fp32 bf16",
            "fp32 fp32"},
        Row{"inherit='precision-aware-fp8'", "fp32 e4m3", "fp32 bf16", "fp32 bf16"},
        Row{"inherit='bf16'\ngradient.communicate='mxfp4'", "e2m1 bf16", "fp32 bf16",
            "fp32 bf16"}}) {
    const Recipe recipe = traffic_recipe(row.keys);
    EXPECT_EQ(wires(recipe, "blocks.3.mlp.up.weight"), row.block) << row.keys;
    EXPECT_EQ(wires(recipe, "head.weight"), row.outside) << row.keys;
    EXPECT_EQ(wires(recipe, "blocks.3.norm1.weight"), row.vector) << row.keys;
  }
}

TEST(RankTraffic, ActivationsOfTensorParallelRanksByHand) {
  const auto backend = make_backend("ref", Threads{1});
  const StepSettings step{.sequences = 2, .length = 64, .micros = 3, .optimizer = {}};
  const RankPlan plan(*backend, model_preset("llama-134m"), Recipe::load("fp8-lm"),
                      {.ranks = 8, .tensor = 4});
  const StepTraffic traffic = step_traffic(plan, step);
  // 3/4 of 384 tokens x 768 channels x 24 half blocks.
  const double values = 0.75 * 384 * 768 * 24;
  EXPECT_EQ(traffic.activations.sent.five, 7 * values);
  EXPECT_EQ(traffic.activations.in_bf16.five, 10 * values);
  EXPECT_EQ(traffic.activations.sent.three, 4 * values);
  EXPECT_EQ(traffic.activations.in_bf16.three, 6 * values);
  EXPECT_EQ(traffic.most[static_cast<size_t>(Traffic::activations)],
            static_cast<uint64_t>(7 * values));
}

TEST(ManyRanks, NumbersOf175B) {
  const auto backend = make_backend("ref", Threads{1});
  const RankPlan plan(*backend, find_published_shape("gpt-175b")->config, Recipe::load("fp8-lm"),
                      {.ranks = 32});
  const ManyRanks many = at_many_ranks(*backend, plan).value();
  EXPECT_EQ(many.layout.data(), 1024);
  EXPECT_EQ(many.nodes, 128);
  // distributed.md §8: 200 kB flat, 1.6 MB with nodes of 8.
  EXPECT_DOUBLE_EQ(many.per_rank, 200e6 / 1024);
  EXPECT_DOUBLE_EQ(many.per_node, 200e6 / 128);
  EXPECT_EQ(many.amax_reduces, 4 * 96) << "weights of the blocks";
  EXPECT_DOUBLE_EQ(many.amax_seconds, 384 * 50e-6);
  EXPECT_EQ(many.sums.kind, RankSums::Kind::ring);
  EXPECT_EQ(many.sums.exact.in_fp32, 73);
  EXPECT_LT(many.balance_tensor, 0.4) << "a feed-forward matrix is 3.5 times the mean";
  EXPECT_GT(many.balance_flat, 0.8);
}

TEST(ManyRanks, NoneOfAPlanThatHasAsMany) {
  const auto backend = make_backend("ref", Threads{1});
  const auto many = [&](const RankLayout& layout) {
    return at_many_ranks(*backend,
                         {*backend, model_preset("char-gpt"), Recipe::load("fp32"), layout});
  };
  EXPECT_EQ(many({.ranks = 1023}).value().layout.ranks, 1024);
  EXPECT_FALSE(many({.ranks = 1024}).has_value());
  EXPECT_FALSE(many({.ranks = 2000}).has_value());
  EXPECT_EQ(many({.ranks = 3, .tensor = 3}).value().layout.ranks, 1023) << "whole groups";
  EXPECT_FALSE(many({.ranks = 1023, .tensor = 3}).has_value());
}

TEST(ManyRanks, SumsAreThoseOfTheWire) {
  const auto sums = [](const std::string& keys, int64_t ranks = 1024) {
    return sums_of_ranks(traffic_recipe(keys).settings(0).gradient, ranks);
  };
  using Kind = RankSums::Kind;
  EXPECT_EQ(sums("").kind, Kind::tree);
  EXPECT_EQ(sums("inherit='fp8-lm'").kind, Kind::ring);
  EXPECT_EQ(sums("inherit='fp8-lm'\ngradient.reduce='fp32'").kind, Kind::codes);
  EXPECT_EQ(sums("gradient.communicate='fp16'").kind, Kind::codes) << "without a scale, one unit";
  EXPECT_EQ(sums("gradient.communicate='fp16'").exact.in_fp64, 8196);
  EXPECT_EQ(sums("gradient.communicate='fp16'", 8197).kind, Kind::values);
  // 53 bits less those of a value, less ten for 1,024 ranks.
  struct Case {
    const char* format;
    int bits;
  };
  for (const Case& c : {Case{"bf16", 8}, Case{"mxfp8_e4m3", 4}, Case{"mxfp8_e5m2", 3},
                        Case{"mxint8", 7}, Case{"nvfp4", 24}}) {
    const RankSums of = sums(fmt::format("gradient.communicate='{}'", c.format));
    EXPECT_EQ(of.kind, Kind::values) << c.format;
    EXPECT_EQ(of.exact_exponents, 43 - c.bits) << c.format;
  }
}

}  // namespace
}  // namespace ng
