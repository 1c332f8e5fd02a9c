// GEMMs of unscaled operands.
#include "backend/cpu/gemm/gemm_testing.h"

namespace ng::cpu {
namespace {

TEST(Gemm, EveryOutputIsOneFmaChainAtOddSizes) {
  std::vector<Case> cases;
  const int64_t sizes[] = {1, 7, 13, 31, 33, 97, 257};
  std::mt19937 random(5);
  const auto size = [&] { return sizes[random() % std::size(sizes)]; };
  for (int i = 0; i < 24; ++i) {
    const Contract a = random() % 2 == 0 ? Contract::cols : Contract::rows;
    const Contract b = random() % 2 == 0 ? Contract::cols : Contract::rows;
    cases.push_back({.m = size(), .n = size(), .k = size(), .a = a, .b = b});
  }
  check_everywhere(cases);
}

TEST(Gemm, EmptyAndShortReductions) {
  std::vector<Case> cases;
  for (const int64_t k : {0, 1, 2})
    for (const Into into : {Into::overwrite, Into::add, Into::carry})
      for (const Contract contract : {Contract::cols, Contract::rows})
        cases.push_back({.m = 9, .n = 50, .k = k, .a = contract, .b = contract, .into = into});
  cases.push_back({.m = 0, .n = 5, .k = 3});
  cases.push_back({.m = 5, .n = 0, .k = 3});
  check_everywhere(cases);
}

// Reductions longer than a block and a superblock, where sums wait in y or in scratch.
TEST(Gemm, LongReductionsCarryTheChain) {
  std::vector<Case> cases;
  for (const Into into : {Into::overwrite, Into::add, Into::carry})
    for (const int64_t k : {1025, 2100, 5001})
      cases.push_back({.m = 17,
                       .n = 61,
                       .k = k,
                       .into = into,
                       .bias = k == 2100,
                       .round = k == 1025 ? Compute::bf16 : Compute::fp32});
  check_everywhere(cases);
}

TEST(Gemm, BiasAndRoundingComeAfterTheSum) {
  std::vector<Case> cases;
  for (const Into into : {Into::overwrite, Into::add, Into::carry})
    for (const bool bias : {false, true})
      for (const Compute round : {Compute::fp32, Compute::bf16})
        cases.push_back({.m = 20, .n = 53, .k = 70, .into = into, .bias = bias, .round = round});
  check_everywhere(cases);
}

TEST(Gemm, UnscaledOperandsAreRoundedWhilePacking) {
  std::vector<Case> cases;
  for (const std::string_view a : {"fp32", "bf16", "fp16"})
    for (const std::string_view b : {"fp32", "bf16", "fp16"})
      for (const Contract contract : {Contract::cols, Contract::rows})
        cases.push_back({.m = 19,
                         .n = 49,
                         .k = 41,
                         .a = contract,
                         .b = contract,
                         .a_format = a,
                         .b_format = b});
  check_everywhere(cases);
}

TEST(Gemm, OtherTypesAreRefusedByName) {
  Workspace workspace(Threads{1});
  const Matrix a(2, 3, 0, 1, {}), b(4, 3, 0, 2, {});
  const PackedOperand left = in_place(a, "fp32", Contract::cols);
  const PackedOperand right = in_place(b, "fp32", Contract::cols);
  std::byte codes[8] = {};
  const View narrow{codes, element_format("float8_e4m3fn"), 2, 4, 4};
  const Bf16 halves[4] = {};
  Matrix y(2, 4, 0, 3, {});
  const auto refusal = [&](const View& out, const ConstView& bias) -> std::string {
    try {
      gemm(workspace, {.y = out, .a = &left, .b = &right, .bias = bias});
    } catch (const Unsupported& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(refusal(narrow, {}), "cpu: gemm of float8_e4m3fn");
  EXPECT_EQ(refusal(y.out, {halves, 1, 4, 4}), "cpu: gemm of bfloat16 where float32 is needed");
  EXPECT_EQ(refusal(y.out, {}), "none");
}

// More rows and columns than one chunk holds, so that left panels are packed in pieces.
TEST(Gemm, ManyChunks) {
  const Case cases[] = {{.m = 1100, .n = 49, .k = 2050, .into = Into::add},
                        {.m = 2100, .n = 13, .k = 1030, .a = Contract::rows},
                        {.m = 2100,
                         .n = 13,
                         .k = 4101,
                         .a = Contract::rows,
                         .a_format = "bf16",
                         .b_format = "bf16",
                         .into = Into::add}};
  force_isa("auto");
  Workspace workspace(Threads{2});
  for (const Case& c : cases) Problem(c).check(workspace);
}

}  // namespace
}  // namespace ng::cpu
