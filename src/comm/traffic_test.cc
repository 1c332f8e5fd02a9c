// The traffic model against an independent program (tests/golden/fp8lm/traffic) and by hand.
#include "comm/traffic.h"

#include <gtest/gtest.h>

#include "format/exact_sum.h"
#include "support/golden_file.h"

namespace ng {
namespace {

using Shard = GradientRecipe::Shard;

uint64_t of(const BytesByTraffic& bytes, Traffic kind) { return bytes[static_cast<size_t>(kind)]; }

TEST(Traffic, MeanPayloadIsThatOfTheGoldenFile) {
  const GoldenFile file("fp8lm/traffic");
  for (const auto& [name, of_case] : file.cases().items()) {
    SCOPED_TRACE(name);
    const std::vector<int64_t> elements = file.integers(name + ".elements");
    const std::vector<double> want = file.doubles(name + ".bytes");
    const int ranks = of_case["data_parallel"];
    const auto narrow = [&](std::string_view wide_gradient) {
      return std::vector<SentTensor>{{.size = {1, elements[0]},
                                      .gradient = operand_of("fp8_e4m3"),
                                      .weight = operand_of("fp8_e4m3")},
                                     {.size = {1, elements[1]},
                                      .gradient = operand_of(wide_gradient),
                                      .weight = operand_of("bf16")}};
    };
    const std::vector<SentTensor> fp8 = narrow("fp32");
    for (size_t i = 0; i < 2; ++i)
      EXPECT_EQ(mean_payload(all_sent_as(fp8, kBaselines[i].gradient, kBaselines[i].weight), ranks)
                    .total(),
                want[i]);
    EXPECT_EQ(mean_payload(fp8, ranks).total(), want[2]);
    EXPECT_EQ(mean_payload(narrow("bf16"), ranks).total(), want[3]);
    EXPECT_EQ(mean_payload(wide_sent_as(fp8, "bf16", "bf16"), ranks).total(), want[3]);
    EXPECT_EQ(mean_payload(wide_sent_as(fp8, "fp32", "bf16"), ranks).total(), want[2]);
  }
}

TEST(Traffic, ActivationBytesAreThoseOfTheGoldenFile) {
  const GoldenFile file("fp8lm/traffic");
  const Operand bf16 = operand_of("bf16"), fp8 = operand_of("fp8_e4m3");
  const std::vector<int64_t> three = file.integers("activations.three");
  EXPECT_EQ(activation_bytes(bf16, bf16).three, three[0]);
  EXPECT_EQ(activation_bytes(fp8, bf16).three, three[1]);
  const std::vector<int64_t> five = file.integers("activations.five");
  EXPECT_EQ(activation_bytes(bf16, bf16).five, five[0]);
  EXPECT_EQ(activation_bytes(fp8, bf16).five, five[1]);
  EXPECT_EQ(activation_bytes(fp8, fp8).five, five[2]);
}

TEST(Traffic, AllRanksTogetherSendTheMeanTimesTheirNumber) {
  const SentTensor tensors[] = {
      {.size = {300, 70}, .gradient = operand_of("mxfp4"), .weight = operand_of("fp8_e4m3")},
      {.size = {1, 33}, .gradient = operand_of("fp32"), .weight = operand_of("bf16")}};
  const MatrixSize sizes[] = {tensors[0].size, tensors[1].size};
  for (const Shard shard : {Shard::flat, Shard::tensor}) {
    uint64_t all = 0;
    for (const BytesByTraffic& rank : traffic_by_rank(partition(sizes, 3, shard), tensors))
      all += of(rank, Traffic::gradients) + of(rank, Traffic::weights);
    // 2 · (300·35 + 300·70 + 33·4 + 33·2)
    EXPECT_EQ(all, 2u * (10500 + 21000 + 132 + 66));
    EXPECT_DOUBLE_EQ(3 * mean_payload(tensors, 3).total(), static_cast<double>(all));
  }
}

// Two ranks, two tensors: rank 0 owns the matrix, rank 1 the vector.
TEST(Traffic, KindsOfOneStepByHand) {
  Operand one_scale = operand_of("fp8_e4m3");
  one_scale.scale = ScaleKind::pow2;
  const SentTensor tensors[] = {
      {.size = {8, 64}, .gradient = one_scale, .weight = one_scale, .counts_saturation = true},
      {.size = {1, 64}, .gradient = operand_of("fp32"), .weight = operand_of("bf16")}};
  const MatrixSize sizes[] = {tensors[0].size, tensors[1].size};
  const auto sent = traffic_by_rank(partition(sizes, 2, Shard::tensor), tensors);
  EXPECT_EQ(of(sent[0], Traffic::gradients), 64u * 4);
  EXPECT_EQ(of(sent[0], Traffic::weights), 512u);
  EXPECT_EQ(of(sent[0], Traffic::scales), 4u) << "of the weight";
  EXPECT_EQ(of(sent[1], Traffic::gradients), 512u);
  EXPECT_EQ(of(sent[1], Traffic::weights), 64u * 2);
  EXPECT_EQ(of(sent[1], Traffic::scales), 0u);
  for (const BytesByTraffic& rank : sent) {
    EXPECT_EQ(of(rank, Traffic::control), 4u + 8) << "amax of the gradient, its saturated codes";
    EXPECT_EQ(of(rank, Traffic::activations), 0u);
  }
}

TEST(Traffic, ScalesOfBlocksTravelWithTheirElements) {
  const SentTensor tensors[] = {
      {.size = {256, 96}, .gradient = operand_of("mxfp4"), .weight = operand_of("bf16")},
      {.size = {256, 96}, .gradient = operand_of("nvfp4"), .weight = operand_of("bf16")}};
  const MatrixSize sizes[] = {tensors[0].size, tensors[1].size};
  const auto sent = traffic_by_rank(partition(sizes, 2, Shard::tensor), tensors);
  EXPECT_EQ(of(sent[1], Traffic::scales), 256u * 3) << "E8M0 of 32 values, to the owner";
  EXPECT_EQ(of(sent[0], Traffic::scales), 256u * 6 + 4) << "E4M3 of 16 values, and their level";
  EXPECT_EQ(of(sent[0], Traffic::control), 4u) << "amax for the second level of nvfp4";
}

TEST(Traffic, AWeightInPiecesNeedsAnAmaxOfAllOfThem) {
  Operand one_scale = operand_of("fp8_e4m3");
  one_scale.scale = ScaleKind::pow2;
  const SentTensor tensors[] = {
      {.size = {512, 16}, .gradient = operand_of("fp32"), .weight = one_scale}};
  const MatrixSize sizes[] = {tensors[0].size};
  uint64_t scales = 0;
  const auto sent = traffic_by_rank(partition(sizes, 2, Shard::flat), tensors);
  for (const BytesByTraffic& rank : sent) {
    EXPECT_EQ(of(rank, Traffic::control), 4u);
    scales += of(rank, Traffic::scales);
  }
  EXPECT_EQ(scales, 4u) << "its one scale is sent once to the other rank";
  EXPECT_EQ(of(traffic_by_rank(partition(sizes, 2, Shard::tensor), tensors)[0], Traffic::control),
            0u);
}

TEST(Traffic, OneRankSendsNothing) {
  const SentTensor tensors[] = {
      {.size = {256, 96}, .gradient = operand_of("nvfp4"), .weight = operand_of("fp8_e4m3")}};
  const MatrixSize sizes[] = {tensors[0].size};
  EXPECT_EQ(traffic_by_rank(partition(sizes, 1, Shard::flat), tensors)[0], BytesByTraffic{});
  EXPECT_EQ(mean_payload(tensors, 1).total(), 0);
}

}  // namespace
}  // namespace ng
