#include "base/toml.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ng {
namespace {

TEST(TomlQuote, AnyBytesReadBack) {
  std::string all;
  for (int byte = 1; byte < 128; ++byte) all += static_cast<char>(byte);
  const toml::table same = parse_toml("a = " + toml_quote(all), "f");
  EXPECT_EQ(same["a"].value<std::string>(), all);
  const toml::table other = parse_toml("a = " + toml_quote("x\xFF\xC3y"), "f");
  EXPECT_EQ(other["a"].value<std::string>(), "x\uFFFD\uFFFDy");
}

TEST(ParseToml, RefusesWhatIsNotText) {
  for (const std::string& bad : {std::string("a = '\xFF'"), std::string("a = 1\0b", 7)})
    EXPECT_THROW((void)parse_toml(bad, "f"), Error) << bad;
}

}  // namespace
}  // namespace ng
