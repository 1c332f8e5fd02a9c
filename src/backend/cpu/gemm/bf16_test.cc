// Operands of BF16, and sources stored as BF16.
#include "backend/cpu/gemm/gemm_testing.h"

namespace ng::cpu {
namespace {

// Sources stored as BF16, some of whose values only one of the rules of overflow keeps.
TEST(Gemm, SourcesOfBf16AreReadAsTheirValues) {
  std::vector<Case> cases;
  for (const std::string_view a : {"fp32", "bf16", "fp16"})
    for (const std::string_view b : {"fp32", "bf16", "fp16"})
      for (const Contract contract : {Contract::cols, Contract::rows})
        for (const Overflow overflow : {Overflow::saturate, Overflow::special})
          for (const int stored : {1, 2, 3})
            cases.push_back({.m = 19,
                             .n = 49,
                             .k = 41,
                             .a = contract,
                             .b = contract,
                             .a_format = a,
                             .b_format = b,
                             .a_values = {.broken_of = 150},
                             .b_values = {.low = -4, .range = 24, .broken_of = 150},
                             .a_is_bf16 = (stored & 1) != 0,
                             .b_is_bf16 = (stored & 2) != 0,
                             .overflow = overflow});
  check_everywhere(cases);
}

// Panels of pairs from such sources: odd values along K, long sums, subnormals, and values
// that overflow.
TEST(Gemm, SourcesOfBf16InPairs) {
  std::vector<Case> cases;
  const Spread one{}, tiny{.low = -132, .range = 8}, broken{.broken_of = 150};
  for (const int64_t k : {1, 2, 33, 129, 5001})
    for (const Contract a : {Contract::cols, Contract::rows})
      for (const Contract b : {Contract::cols, Contract::rows})
        for (const Overflow overflow : {Overflow::saturate, Overflow::special})
          cases.push_back({.m = 17,
                           .n = 61,
                           .k = k,
                           .a = a,
                           .b = b,
                           .a_format = "bf16",
                           .b_format = "bf16",
                           .into = k == 33 ? Into::carry : Into::add,
                           .a_values = k == 129  ? tiny
                                       : k == 33 ? broken
                                                 : one,
                           .a_is_bf16 = true,
                           .b_is_bf16 = a == b,
                           .overflow = overflow});
  check_everywhere(cases);
}

// Every way into panels of pairs, and the last value of an odd number.
TEST(Gemm, Bf16AtOddSizes) {
  std::vector<Case> cases;
  const int64_t sizes[] = {1, 2, 3, 31, 33, 47, 49, 129};
  std::mt19937 random(6);
  for (const int64_t k : sizes)
    for (const Contract a : {Contract::cols, Contract::rows})
      for (const Contract b : {Contract::cols, Contract::rows})
        for (const Into into : {Into::overwrite, Into::add, Into::carry})
          cases.push_back({.m = sizes[random() % std::size(sizes)],
                           .n = sizes[random() % std::size(sizes)],
                           .k = k,
                           .a = a,
                           .b = b,
                           .a_format = "bf16",
                           .b_format = "bf16",
                           .into = into});
  for (const Into into : {Into::overwrite, Into::add, Into::carry})
    cases.push_back(
        {.m = 17, .n = 61, .k = 5001, .a_format = "bf16", .b_format = "bf16", .into = into});
  check_everywhere(cases);
}

// Subnormal values, products and sums in some tiles or in all, which dot products of BF16 lose.
TEST(Gemm, Bf16WhereSubnormalsAre) {
  std::vector<Case> cases;
  const Spread one{}, some{.low = -140, .range = 140}, tiny{.low = -132, .range = 8};
  const Spread half{.low = -66, .range = 6}, large{.low = 90, .range = 30};
  const std::pair<Spread, Spread> pairs[] = {{one, tiny}, {tiny, large},  {half, half}, {some, one},
                                             {one, some}, {large, large}, {half, large}};
  const auto add = [&](const Spread& a, const Spread& b, const Spread& y, int64_t k) {
    for (const Into into : {Into::overwrite, Into::add, Into::carry})
      cases.push_back({.m = 17,
                       .n = 61,
                       .k = k,
                       .a_format = "bf16",
                       .b_format = "bf16",
                       .into = into,
                       .a_values = a,
                       .b_values = b,
                       .y_values = y});
  };
  for (const auto& [a, b] : pairs)
    for (const Spread& y : {one, tiny, Spread{.low = -110, .range = 12}}) add(a, b, y, 131);
  for (const auto& [a, b] : {pairs[0], pairs[3], pairs[4]}) add(a, b, tiny, 2100);
  check_everywhere(cases);
}

// 144 · 144 - 143 · 145 = 1: the smallest normal sum, and the largest that is not; both also on top
// of a subnormal one.
TEST(Gemm, Bf16AtTheEdgeOfSubnormals) {
  Workspace workspace(Threads{1});
  Matrix a(1, 2, 0, 1, {}), b(1, 2, 0, 2, {}), y(1, 1, 0, 3, {});
  a.out.data[0] = std::ldexp(144.0f, -63);
  a.out.data[1] = std::ldexp(-143.0f, -63);
  for (const Isa isa : supported_isas())
    for (const int e : {-63, -64})
      for (const float start : {0.0f, 0x1p-130f}) {
        force_isa(isa);
        b.out.data[0] = std::ldexp(144.0f, e);
        b.out.data[1] = std::ldexp(145.0f, e);
        y.out.data[0] = start;
        const PackedOperand left = in_place(a, "bf16", Contract::cols);
        const PackedOperand right = in_place(b, "bf16", Contract::cols);
        gemm(workspace, {.y = y.out, .a = &left, .b = &right, .into = Into::carry});
        EXPECT_EQ(y.out.data[0], std::ldexp(1.0f, e - 63) + start) << name_of(isa);
      }
  force_isa("auto");
}

// A sum that starts at -0 stays there while all products are -0.
TEST(Gemm, Bf16ZerosKeepTheirSigns) {
  std::vector<Case> cases;
  const Spread zeros{.zero_of = 1}, half{.zero_of = 2};
  for (const int64_t k : {1, 2, 3, 4, 5})
    for (const Into into : {Into::overwrite, Into::add, Into::carry})
      for (const Spread& a : {zeros, half})
        cases.push_back({.m = 9,
                         .n = 50,
                         .k = k,
                         .a_format = "bf16",
                         .b_format = "bf16",
                         .into = into,
                         .a_values = a,
                         .b_values = half,
                         .y_values = zeros});
  check_everywhere(cases);
}

}  // namespace
}  // namespace ng::cpu
