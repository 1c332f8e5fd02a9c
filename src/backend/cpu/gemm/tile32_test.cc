// SumOrder::tile32 against the definition, bit for bit.
#include "backend/cpu/gemm/blocks_testing.h"

namespace ng::cpu {
namespace {

constexpr Shape kTileShapes[] = {{1, 1, 1}, {7, 13, 31}, {13, 97, 257}, {33, 50, 160}};

// Those of the pairs that tiles take.
std::vector<Pair> tile_pairs() {
  std::vector<Pair> pairs;
  for (const std::vector<Pair>& all : {same_format_pairs(), other_pairs()})
    for (const Pair& pair : all)
      if (pair.a.factors_are_bf16() && pair.b.factors_are_bf16()) pairs.push_back(pair);
  return pairs;
}

TEST(Tile32, TakesWhatBf16Holds) {
  const auto takes = [](const Operand& cast) { return cast.factors_are_bf16(); };
  for (const std::string_view name : {"bf16", "fp8_e4m3", "fp8_e5m2", "mxfp8_e4m3", "mxfp6_e3m2",
                                      "mxfp6_e2m3", "mxfp4", "mxint8", "nvfp4", "int8", "int4"})
    EXPECT_TRUE(takes(operand_of(name))) << name;
  for (const std::string_view name : {"fp32", "fp16"}) EXPECT_FALSE(takes(operand_of(name)));
  Operand cast = tile("fp8_e4m3", 1, 128);
  EXPECT_FALSE(takes(cast));  // a scale of any 24 bits
  cast.scale = ScaleKind::pow2;
  EXPECT_TRUE(takes(cast));
  EXPECT_FALSE(takes(tile("int8", 1, 32)));
}

TEST(Tile32, EveryPairOfFormats) {
  for (const Pair& pair : tile_pairs())
    for (const Shape& shape : kTileShapes)
      for (const Data data : {Data::normal, Data::uneven})
        check(pair, shape, data, {.y = {}, .bias = {}, .sum = SumOrder::tile32});
}

TEST(Tile32, ExtremeScalesAndValuesThatAreNotNumbers) {
  for (const Pair& pair : tile_pairs())
    for (const Data data : {Data::extreme, Data::broken, Data::small})
      check(pair, {19, 61, 200}, data, {.y = {}, .bias = {}, .sum = SumOrder::tile32});
}

// Sums wait between blocks of K, and are added to what is there.
TEST(Tile32, LongReductions) {
  for (const std::string_view name : {"bf16", "mxfp4", "nvfp4", "fp8_e4m3", "int8"})
    for (const Into into : {Into::overwrite, Into::add})
      check({std::string(name), operand_of(name), operand_of(name)}, {9, 50, 2610}, Data::uneven,
            {.y = {}, .into = into, .bias = {}, .sum = SumOrder::tile32});
}

TEST(Tile32, PrescalesBiasAndRounding) {
  const std::vector<float> bias(61, 0.37f);
  Pair pair{"mxfp4", operand_of("mxfp4"), operand_of("mxfp4")};
  pair.a.prescale = 0.75f;
  for (const Into into : {Into::overwrite, Into::add})
    check(pair, {19, 61, 96}, Data::normal,
          {.y = {},
           .into = into,
           .bias = {bias.data(), 1, 61, 61},
           .round = Compute::bf16,
           .sum = SumOrder::tile32});
}

// A sum may be cut where 32 divides it, and goes on to the bit.
TEST(Tile32, SumsAreCarried) {
  for (const Data data : {Data::normal, Data::extreme})
    check({"bf16", operand_of("bf16"), operand_of("bf16")}, {17, 61, 77}, data,
          {.y = {}, .into = Into::carry, .bias = {}, .sum = SumOrder::tile32});
}

}  // namespace
}  // namespace ng::cpu
