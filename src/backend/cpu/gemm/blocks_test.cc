// Block, tensor and row scaled operands against the definition, bit for bit.
#include <algorithm>

#include "backend/cpu/gemm/blocks_testing.h"
#include "backend/cpu/gemm/job.h"

namespace ng::cpu {
namespace {

constexpr Shape kShapes[] = {{1, 1, 1}, {7, 13, 31}, {13, 97, 257}, {33, 50, 160}};

TEST(GemmBlocks, EveryFormatWithItself) {
  for (const Pair& pair : same_format_pairs())
    for (const Shape& shape : kShapes)
      for (const Data data : {Data::normal, Data::uneven}) check(pair, shape, data);
}

TEST(GemmBlocks, MixedPairs) {
  for (const Pair& pair : other_pairs())
    for (const Shape& shape : kShapes)
      for (const Data data : {Data::normal, Data::uneven}) check(pair, shape, data);
}

TEST(GemmBlocks, ExtremeScalesAndValuesThatAreNotNumbers) {
  std::vector<Pair> pairs = same_format_pairs();
  for (const Pair& pair : other_pairs()) pairs.push_back(pair);
  for (const Pair& pair : pairs)
    for (const Data data : {Data::extreme, Data::broken}) check(pair, {19, 61, 200}, data);
}

Operand unscaled(std::string_view name) {
  Operand cast = operand_of(name);
  cast.scale = ScaleKind::none;
  return cast;
}

// Formats whose values are BF16 patterns: products in pairs along K.
TEST(GemmBlocks, PairsAtOddSizes) {
  const auto of = operand_of;
  const Pair pairs[] = {{"e4m3", of("fp8_e4m3"), of("fp8_e4m3")},
                        {"e5m2", of("fp8_e5m2"), of("fp8_e5m2")},
                        {"e4m3 x e5m2", of("fp8_e4m3"), of("fp8_e5m2")},
                        {"e4m3 x bf16", of("fp8_e4m3"), of("bf16")},
                        {"unscaled", unscaled("fp8_e5m2"), unscaled("fp8_e4m3")},
                        {"mxfp8_e4m3", of("mxfp8_e4m3"), of("mxfp8_e4m3")},
                        {"mxfp8_e5m2 x mxfp8_e4m3", of("mxfp8_e5m2"), of("mxfp8_e4m3")},
                        {"mxfp6_e3m2", of("mxfp6_e3m2"), of("mxfp6_e3m2")},
                        {"fp8 rows of 128", tile("fp8_e4m3", 1, 128), tile("fp8_e5m2", 128, 128)}};
  const int64_t sizes[] = {1, 2, 3, 31, 33, 47, 49, 129};
  for (const Pair& pair : pairs)
    for (size_t i = 0; i < std::size(sizes); ++i)
      for (const Data data : {Data::normal, Data::uneven, Data::extreme, Data::broken})
        for (const Into into : {Into::overwrite, Into::add})
          check(pair, {sizes[i], sizes[(i + 3) % 8], sizes[(i + 6) % 8]}, data,
                {.y = {}, .into = into});
  check(pairs[4], {9, 50, 4201}, Data::uneven, {.y = {}, .into = Into::add});
}

TEST(GemmBlocks, UnitsByFormat) {
  const auto of = [](std::string_view a, std::string_view b) {
    OperandSpec left = spec_of(operand_of(a), Side::left, 16, 128, 32);
    return units_of(left, spec_of(operand_of(b), Side::right, 16, 128, 32), SumOrder::chain);
  };
  for (const Isa isa : supported_isas()) {
    force_isa(isa);
    const Units pairs = isa == Isa::avx512bf16 ? Units::bf16 : Units::fp32;
    const bool has_int16 = isa != Isa::scalar && isa != Isa::avx512;
    const Units int16 = has_int16 ? Units::int16 : Units::fp32;
    EXPECT_EQ(of("fp8_e4m3", "fp8_e5m2"), pairs);
    EXPECT_EQ(of("mxfp8_e4m3", "mxfp8_e4m3"), pairs);
    EXPECT_EQ(of("mxfp6_e3m2", "mxfp6_e3m2"), isa == Isa::avx512bf16 ? Units::bf16 : int16);
    EXPECT_EQ(of("mxint8", "mxfp6_e3m2"), int16);
    EXPECT_EQ(of("mxfp8_e4m3", "mxfp6_e3m2"), pairs);
    EXPECT_EQ(of("bf16", "fp8_e4m3"), pairs);
    EXPECT_EQ(of("bf16", "mxfp8_e4m3"), Units::fp32);  // scales rounded into the elements
    EXPECT_EQ(of("fp16", "bf16"), Units::fp32);
    EXPECT_EQ(of("fp32", "fp32"), Units::fp32);
    const bool has_words = isa != Isa::avx2 && isa != Isa::avx512;  // of large values
    EXPECT_EQ(of("int8", "int8"), has_words ? Units::int8 : int16);
    EXPECT_EQ(of("mxfp4", "mxfp4"), Units::int8);
    EXPECT_EQ(of("nvfp4", "nvfp4"), Units::int8);
  }
  force_isa("auto");
}

// Sums wait between blocks of K.
TEST(GemmBlocks, LongReductions) {
  for (const std::string_view name : {"mxfp4", "nvfp4", "fp8_e4m3", "int8"})
    for (const Into into : {Into::overwrite, Into::add})
      check({std::string(name), operand_of(name), operand_of(name)}, {9, 50, 2600}, Data::uneven,
            {.y = {}, .into = into});
}

// Sixteen columns of b share their scales; in every kind of units, segments of four elements too,
// whose products of scales are made ahead.
TEST(GemmBlocks, LongReductionsOfSquares) {
  const std::pair<std::string_view, int> squares[] = {
      {"nvfp4", 16}, {"int8", 16}, {"int8", 8}, {"fp8_e4m3", 4}};
  for (const auto& [name, block] : squares)
    for (const int64_t k : {528, 2608})
      check({std::string(name), tile(name, 1, block), tile(name, 16, block)}, {9, 97, k},
            Data::uneven);
}

// Integers lie in pieces of 4096 values along K, two of which are packed at a time.
TEST(GemmBlocks, LongReductionsOfIntegers) {
  for (const std::string_view name : {"mxfp4", "nvfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxint8"})
    for (const int64_t k : {4128, 8256})
      for (const Data data : {Data::normal, Data::largest})
        for (const Into into : {Into::overwrite, Into::add})
          check({std::string(name), operand_of(name), operand_of(name)}, {19, 50, k}, data,
                {.y = {}, .into = into});
}

// Pieces of K begin with whole words, however small the blocks are.
TEST(GemmBlocks, LongReductionsOfSmallBlocks) {
  for (const int block : {1, 2})
    check({"blocks", operand_of("nvfp4"), tile("mxfp4", 1, block)}, {9, 50, 6958}, Data::normal);
}

// Sums of the largest elements, where int16 holds those of a few words: shifted by three bits in
// one block of each group, with equal and with opposite signs.
TEST(GemmBlocks, LargestElementsEverywhere) {
  for (const std::vector<Pair>& pairs : {same_format_pairs(), other_pairs()})
    for (const Pair& pair : pairs)
      for (const int64_t k : {512, 544}) check(pair, {6, 50, k}, Data::largest);
}

TEST(GemmBlocks, GroupsAreSharedOnlyWhereThatIsExact) {
  for (const int rows : {1, 2, 3})
    check({"mxfp4", operand_of("mxfp4"), operand_of("mxfp4")}, {rows, 3, 4096}, Data::close);
}

TEST(GemmBlocks, PrescalesBiasAndRounding) {
  const std::vector<float> bias(61, 0.37f);
  for (const std::string_view name : {"mxfp4", "nvfp4", "int8"}) {
    Pair pair{std::string(name), operand_of(name), operand_of(name)};
    pair.a.prescale = 0.75f;
    pair.b.prescale = 0.9f;
    for (const Into into : {Into::overwrite, Into::add})
      check(pair, {19, 61, 96}, Data::normal,
            {.y = {}, .into = into, .bias = {bias.data(), 1, 61, 61}, .round = Compute::bf16});
  }
}

// More products of the largest integers than int32 holds.
TEST(GemmBlocks, IntegersBeyondOneChunk) {
  constexpr int64_t kK = 270000;
  const std::vector<float> left(2 * kK, 1.0f);
  std::vector<float> right(3 * kK, 1.0f);
  std::fill_n(right.begin(), kK, -1.0f);
  check_values({"int8", operand_of("int8"), operand_of("int8")}, {2, 3, kK}, left, right);
}

// More rows than one chunk holds, of words and of pairs, beyond one piece of K.
TEST(GemmBlocks, ManyChunks) {
  for (const std::string_view name : {"mxfp4", "mxfp6_e3m2"})
    check({std::string(name), operand_of(name), operand_of(name)}, {830, 9, 4128}, Data::uneven,
          {.y = {}, .into = Into::add});
}

}  // namespace
}  // namespace ng::cpu
