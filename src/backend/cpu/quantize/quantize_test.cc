// The quantizer against the definition, bit for bit: codes, values, counters and histories.
#include "backend/cpu/quantize/quantize.h"

#include <string>

#include "backend/cpu/quantize/quantize_testing.h"

namespace ng {
namespace {

std::vector<Operand> nearest_casts() {
  std::vector<Operand> casts;
  for (const std::string_view name : operand_names()) casts.push_back(operand_of(name));
  for (const char* name : {"fp8_e4m3", "fp8_e5m2"}) {
    const Operand fp8 = operand_of(name);
    for (const ScaleKind scale : {ScaleKind::fp32, ScaleKind::pow2}) {
      casts.push_back(with_block(fp8, 1, 128, scale));
      casts.push_back(with_block(fp8, 32, 32, scale));
      casts.push_back(with_block(fp8, 128, 128, scale));
      casts.push_back(fp8);
      casts.back().scale = scale;
      casts.back().block.kind = Block::Kind::row;
    }
    casts.push_back(fp8);
    casts.back().scaling = Scaling::delayed;
    casts.push_back(fp8);
    casts.back().overflow = Overflow::special;
  }
  for (const char* name :
       {"mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4", "mxint8"})
    for (const ScaleRule rule :
         {ScaleRule::rceil, ScaleRule::ceil, ScaleRule::even, ScaleRule::mse}) {
      casts.push_back(operand_of(name));
      casts.back().scale_rule = rule;
    }
  casts.push_back(with_block(operand_of("mxfp4"), 32, 32, ScaleKind::e8m0));
  for (const ScaleRule rule : {ScaleRule::nearest, ScaleRule::up})
    for (const ScaleKind tensor : {ScaleKind::none, ScaleKind::fp32, ScaleKind::pow2})
      for (const int rows : {1, 16}) {
        casts.push_back(with_block(operand_of("nvfp4"), rows, 16, ScaleKind::e4m3));
        casts.back().scale_rule = rule;
        casts.back().tensor_scale = tensor;
      }
  for (const char* name : {"bf16", "fp16", "fp32"}) {
    casts.push_back(operand_of(name));
    casts.back().scale = ScaleKind::fp32;
  }
  // Odd ones: blocks that no vector divides, rows that no panel divides, other elements.
  casts.push_back(with_block(operand_of("fp8_e4m3"), 1, 20, ScaleKind::fp32));
  casts.push_back(with_block(operand_of("mxfp4"), 24, 40, ScaleKind::e8m0));
  casts.push_back(with_block(operand_of("int8"), 17, 600, ScaleKind::pow2));
  casts.push_back(with_block(operand_of("int4"), 200, 48, ScaleKind::fp32));
  for (const char* name : {"e4m3fnuz", "e5m2fnuz", "e3m4", "e4m3_ieee", "e4m3b11fnuz"}) {
    casts.push_back(operand_of("mxfp8_e4m3"));
    casts.back().element = &element_format(name);
  }
  casts.push_back(operand_of("mxfp4"));
  casts.back().block = {};
  casts.push_back(operand_of("mxint8"));
  casts.back().block = {};
  casts.back().scale_rule = ScaleRule::mse;
  return casts;
}

std::vector<Operand> all_casts() {
  std::vector<Operand> casts = nearest_casts();
  const size_t nearest = casts.size();
  for (size_t i = 0; i < nearest; ++i) {
    Operand cast = casts[i];
    cast.rounding = Rounding::stochastic;
    cast.sr_bits = i % 4 == 0 ? 8 : i % 7 == 3 ? 32 : 16;
    cast.prescale = i % 3 == 0 ? 0.75f : 1.0f;
    casts.push_back(cast);
  }
  return casts;
}

TEST(Quantize, EqualsTheDefinitionForEveryCast) {
  for (const Operand& cast : all_casts())
    for (const Contract contract : kContracts) {
      ASSERT_NO_FATAL_FAILURE(expect_same(cast, contract, 0, {7, 33}, Data::normal));
      ASSERT_NO_FATAL_FAILURE(expect_same(cast, contract, 64, {7, 33}, Data::normal));
      ASSERT_NO_FATAL_FAILURE(expect_same(cast, contract, 0, {31, 97}, Data::zeros));
    }
}

TEST(Quantize, EqualsTheDefinitionOverSeveralPanelsAndChunks) {
  const std::vector<Operand> casts = all_casts();
  for (size_t i = 0; i < casts.size(); ++i)
    ASSERT_NO_FATAL_FAILURE(
        expect_same(casts[i], kContracts[i % 2], i % 5 == 0 ? 16 : 0, {130, 257}, Data::normal));
}

TEST(Quantize, ThreadsDoNotChangeABitOrACount) {
  for (const int threads : {1, 2, 3})
    for (const char* name : {"mxfp4", "nvfp4", "fp8_e4m3", "mxfp8_e5m2", "int8", "bf16"})
      for (const Contract contract : kContracts) {
        Operand cast = operand_of(name);
        cast.rounding = name[0] == 'm' ? Rounding::stochastic : Rounding::nearest;
        const int hadamard = name[0] == 'n' ? 128 : 0;
        ASSERT_NO_FATAL_FAILURE(
            expect_same(cast, contract, hadamard, {130, 257}, Data::zeros, threads));
        ASSERT_NO_FATAL_FAILURE(
            expect_same(cast, contract, hadamard, {33, 580}, Data::nonfinite, threads));
      }
}

TEST(Quantize, EqualsTheDefinitionOnUnusualValues) {
  for (const Operand& cast : all_casts())
    for (const Contract contract : kContracts)
      for (const Data data : {Data::tiny, Data::huge, Data::nonfinite})
        ASSERT_NO_FATAL_FAILURE(expect_same(cast, contract, 0, {19, 38}, data));
}

TEST(Quantize, EqualsTheDefinitionUnderEveryHadamardSize) {
  for (const char* name : {"mxfp4", "nvfp4", "fp8_e4m3", "fp32"})
    for (const Contract contract : kContracts)
      for (const int hadamard : {16, 32, 64, 128})
        for (const Data data : {Data::normal, Data::huge, Data::nonfinite}) {
          Operand cast = operand_of(name);
          cast.rounding = hadamard == 32 ? Rounding::stochastic : Rounding::nearest;
          ASSERT_NO_FATAL_FAILURE(expect_same(cast, contract, hadamard, {67, 150}, data));
        }
}

TEST(Quantize, EqualsTheDefinitionAtTheSmallestAndAtWideShapes) {
  for (const char* name : {"mxfp4", "nvfp4", "fp8_e4m3", "int8", "bf16", "fp16"})
    for (const Rounding rounding : {Rounding::nearest, Rounding::stochastic})
      for (const Contract contract : kContracts)
        for (const Shape shape : {Shape{0, 0}, Shape{0, 5}, Shape{5, 0}, Shape{1, 1}, Shape{1, 700},
                                  Shape{700, 1}, Shape{17, 1300}, Shape{1300, 17}}) {
          Operand cast = operand_of(name);
          cast.rounding = rounding;
          ASSERT_NO_FATAL_FAILURE(expect_same(cast, contract, 0, shape, Data::normal));
          ASSERT_NO_FATAL_FAILURE(expect_same(cast, contract, 32, shape, Data::normal));
        }
}

// A source stored as BF16 makes the operands of the same values in FP32.
TEST(Quantize, SourcesOfBf16EqualTheirValuesForEveryCast) {
  for (const Operand& cast : all_casts())
    for (const Contract contract : kContracts) {
      for (const Data data : {Data::normal, Data::zeros, Data::tiny, Data::huge, Data::nonfinite})
        ASSERT_NO_FATAL_FAILURE(expect_same(cast, contract, 0, {19, 38}, data, 1, Storage::bf16));
      ASSERT_NO_FATAL_FAILURE(
          expect_same(cast, contract, 64, {7, 33}, Data::normal, 1, Storage::bf16));
    }
}

TEST(Quantize, SourcesOfBf16EqualTheirValuesOverPanelsAndThreads) {
  for (const char* name : {"mxfp4", "nvfp4", "fp8_e4m3", "mxfp8_e5m2", "mxint8", "int8", "bf16"})
    for (const Rounding rounding : {Rounding::nearest, Rounding::stochastic})
      for (const Contract contract : kContracts)
        for (const int hadamard : {0, 32})
          for (const Shape shape :
               {Shape{130, 257}, Shape{17, 700}, Shape{700, 17}, Shape{1, 1}, Shape{0, 5}}) {
            Operand cast = operand_of(name);
            cast.rounding = rounding;
            const Data data = hadamard == 0 ? Data::nonfinite : Data::normal;
            ASSERT_NO_FATAL_FAILURE(
                expect_same(cast, contract, hadamard, shape, data, 2, Storage::bf16));
          }
}

TEST(Quantize, ValuesOfOtherTypesAreRefusedByName) {
  const PackedOperand packed{.spec = spec_of(operand_of("fp32"), Contract::cols, 0, {1, 4}),
                             .source = {}};
  Bf16 halves[4] = {};
  try {
    cpu::unpack({1}, {.packed = &packed, .values = {halves, 1, 4, 4}});
    FAIL();
  } catch (const Unsupported& error) {
    EXPECT_STREQ(error.what(), "cpu: unpack of bfloat16 where float32 is needed");
  }
}

// The casts that are read in place: what overflows, and values of neither kind of number.
TEST(Quantize, SourcesOfBf16ReadInPlace) {
  for (const char* name : {"fp32", "bf16", "fp16"})
    for (const Overflow overflow : {Overflow::saturate, Overflow::special})
      for (const Contract contract : kContracts)
        for (const Data data : {Data::normal, Data::tiny, Data::huge, Data::nonfinite})
          for (const Storage storage : {Storage::fp32, Storage::bf16}) {
            Operand cast = operand_of(name);
            cast.overflow = overflow;
            ASSERT_TRUE(cpu::is_read_in_place(spec_of(cast, contract, 0, {9, 2100})));
            ASSERT_NO_FATAL_FAILURE(expect_same(cast, contract, 0, {9, 2100}, data, 2, storage));
          }
}

}  // namespace
}  // namespace ng
