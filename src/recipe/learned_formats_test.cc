// Bit-widths to formats, at every boundary of Table C.1.
#include "format/learned_formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "base/error.h"
#include "recipe/operand_keys.h"
#include "recipe/recipe.h"

namespace ng {
namespace {

TEST(LearnedFormats, FollowTableC1AtEveryBoundary) {
  const struct {
    double b_t;
    const char* format;
  } kCases[] = {{-8, "mxfp6_e3m2"},
                {0, "mxfp6_e3m2"},
                {2.5, "mxfp6_e3m2"},
                {3, "mxfp6_e3m2"},
                {3.0001, "mxfp6_e3m2"},
                {4, "mxfp6_e3m2"},
                {4.0001, "mxfp8_e4m3"},
                {4.5, "mxfp8_e4m3"},
                {5, "mxfp8_e4m3"},
                {5.0001, "bf16"},
                {6, "bf16"},
                {8.7, "bf16"},
                {9, "bf16"},
                {9.0001, "fp16"},
                {10, "fp16"},
                {12, "fp16"},
                {12.0001, "fp32"},
                {13, "fp32"},
                {14, "fp32"},
                {25, "fp32"},
                {1000, "fp32"}};
  for (const auto& [b_t, format] : kCases) EXPECT_EQ(format_for_bits(b_t).name, format) << b_t;
}

TEST(LearnedFormats, TakeNoBitWidthThatIsNoNumber) {
  EXPECT_THROW((void)format_for_bits(std::nan("")), InternalError);
  EXPECT_THROW((void)format_for_bits(INFINITY), InternalError);
}

TEST(LearnedFormats, MayHaveALeastWidth) {
  EXPECT_EQ(format_for_bits(4, 6).name, "mxfp6_e3m2");
  EXPECT_EQ(format_for_bits(4, 8).name, "mxfp8_e4m3");
  EXPECT_EQ(format_for_bits(5, 16).name, "bf16");
  EXPECT_EQ(format_for_bits(10, 8).name, "fp16");
  EXPECT_EQ(format_for_bits(4, 32).name, "fp32");
}

TEST(LearnedFormats, GrowInTheirOrder) {
  int bits = 0;
  for (const LearnedFormat& format : learned_formats()) {
    EXPECT_GE(format.bits(), bits) << format.name;
    bits = format.bits();
  }
}

// As `weights.storage` takes them, with the master that training updates.
TEST(LearnedFormats, AreStoredByRecipes) {
  for (const LearnedFormat& format : learned_formats()) {
    if (format.cast.is_fp32()) continue;
    const std::string storage = print_operand(format.cast);
    const Recipe recipe = Recipe::parse(
        "inherit = 'bf16'\nweights = { master = 'fp32', storage = " + storage + " }", "test.toml");
    EXPECT_TRUE(recipe.settings(0).weights.storage == format.cast) << storage;
    EXPECT_TRUE(recipe.warnings().empty()) << storage;
  }
}

}  // namespace
}  // namespace ng
