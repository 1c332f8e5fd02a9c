// The key subnormals: where it has a meaning, and where it does not.
#include <gtest/gtest.h>

#include "base/error.h"
#include "recipe/recipe.h"

namespace ng {
namespace {

Recipe with_input(const std::string& table) {
  return Recipe::parse("linear.fprop.input = " + table, "a.toml");
}

std::string error_of(const std::string& key, const std::string& table) {
  try {
    (void)Recipe::parse(key + " = " + table, "a.toml");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(SubnormalsKey, IsReadAndPrinted) {
  const Recipe recipe = with_input("{format = 'mxfp4', subnormals = 'flush'}");
  const Operand& input = recipe.settings(0).linear.fprop.left;
  EXPECT_EQ(input.subnormals, Subnormals::flush);
  EXPECT_EQ(describe(input), "mxfp4 subnormals flush");
  EXPECT_NE(recipe.resolved_toml().find("subnormals = \"flush\""), std::string::npos);
}

TEST(SubnormalsKey, ChangesNoHashByItsDefault) {
  EXPECT_EQ(with_input("{format = 'mxfp4', subnormals = 'keep'}").hash(),
            with_input("'mxfp4'").hash());
  EXPECT_NE(with_input("{format = 'mxfp4', subnormals = 'flush'}").hash(),
            with_input("'mxfp4'").hash());
}

TEST(SubnormalsKey, BelongsToOperandsOfGemmsThatHaveThem) {
  for (const char* format : {"int8", "bf16", "mxint8"})
    EXPECT_NE(error_of("linear.fprop.input",
                       std::string("{format = '") + format + "', subnormals = 'flush'}")
                  .find("linear.fprop.input.subnormals: "),
              std::string::npos)
        << format;
  for (const char* key : {"weights.storage", "optimizer.moment1", "gradient.communicate"})
    EXPECT_EQ(error_of(key, "{format = 'fp8_e4m3', scale = 'pow2', subnormals = 'flush'}"),
              std::string("a.toml: ") + key + ".subnormals: a stored tensor keeps them: \"keep\"");
}

}  // namespace
}  // namespace ng
