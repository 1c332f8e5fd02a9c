#include "format/operand.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace ng {
namespace {

TEST(Operand, BitsPerValueAreThoseOfTheSpecification) {
  const auto bits = [](const char* name) { return bits_per_value(operand_of(name)); };
  EXPECT_EQ(bits("fp32"), 32);
  EXPECT_EQ(bits("bf16"), 16);
  EXPECT_EQ(bits("fp16"), 16);
  EXPECT_EQ(bits("fp8_e4m3"), 8);
  EXPECT_EQ(bits("mxfp8_e5m2"), 8.25);
  EXPECT_EQ(bits("mxfp6_e3m2"), 6.25);
  EXPECT_EQ(bits("mxfp4"), 4.25);
  EXPECT_EQ(bits("mxint8"), 8.25);
  EXPECT_EQ(bits("nvfp4"), 4.5);
  EXPECT_EQ(bits("int4"), 4);
  Operand tiles = operand_of("nvfp4");
  tiles.block = {.kind = Block::Kind::tile, .rows = 16, .cols = 16};
  EXPECT_EQ(bits_per_value(tiles), 4 + 8.0 / 256);
  Operand deepseek = operand_of("fp8_e4m3");
  deepseek.block = {.kind = Block::Kind::tile, .rows = 1, .cols = 128};
  EXPECT_EQ(bits_per_value(deepseek), 8.25);
}

TEST(Operand, EveryPresetDescribesItselfByItsName) {
  ASSERT_EQ(operand_names().size(), 14u);
  for (const std::string_view name : operand_names()) EXPECT_EQ(describe(operand_of(name)), name);
}

TEST(Operand, DescribeNamesWhatDiffers) {
  Operand sr = operand_of("mxfp4");
  sr.rounding = Rounding::stochastic;
  sr.prescale = 0.75f;
  EXPECT_EQ(describe(sr), "mxfp4 stochastic prescale 0.75");
  Operand delayed = operand_of("fp8_e5m2");
  delayed.scaling = Scaling::delayed;
  delayed.amax_history = 16;
  EXPECT_EQ(describe(delayed), "fp8_e5m2 delayed amax_history 16");
  Operand tiles = operand_of("nvfp4");
  tiles.block = {.kind = Block::Kind::tile, .rows = 16, .cols = 16};
  EXPECT_EQ(describe(tiles), "nvfp4 block 16x16");
}

// One key less apart from an FP8 format, but no float.
TEST(Operand, DescribeTellsIntegersByIntegers) {
  Operand weight = operand_of("int4");  // of recipe bitnet
  weight.element = &element_format("ternary");
  weight.block = {};
  weight.scale_of = ScaleOf::mean_abs;
  EXPECT_EQ(describe(weight), "int4 element ternary block tensor scale_of mean_abs");
  Operand nvint4 = operand_of("nvfp4");
  nvint4.element = &element_format("int4");
  EXPECT_EQ(describe(nvint4), "nvfp4 element int4");
}

TEST(Operand, IsCodedWhereAValueIsNotOneElementTimesItsScale) {
  for (const char* name : {"fp32", "bf16", "fp8_e4m3", "int8", "nvfp4"})
    EXPECT_FALSE(operand_of(name).is_coded()) << name;
  Operand parts = operand_of("bf16"), map = operand_of("int8"), power = operand_of("fp8_e4m3");
  parts.parts = 2;
  map.map = CodeMap::dynamic;
  power.expand = true;
  for (const Operand& cast : {parts, map, power}) EXPECT_TRUE(cast.is_coded()) << describe(cast);
}

TEST(Operand, OnlyPlainFp32KeepsEveryBit) {
  EXPECT_TRUE(operand_of("fp32").is_fp32());
  EXPECT_FALSE(operand_of("bf16").is_fp32());
  EXPECT_TRUE(operand_of("bf16").is_unscaled());
  EXPECT_FALSE(operand_of("fp8_e4m3").is_unscaled());
}

TEST(Operand, UnknownFormatsAreRefusedWithTheNearest) {
  try {
    (void)operand_of("mxfp5");
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("\"mxfp5\""), std::string::npos) << text;
    EXPECT_NE(text.find("did you mean \"mxfp4\"?"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace ng
