#include "base/error.h"

#include <gtest/gtest.h>

namespace ng {
namespace {

TEST(Error, JoinsThePartsThatAreThere) {
  const Error error({.place = "a.toml", .key = "lr", .problem = "missing", .remedy = ""});
  EXPECT_STREQ(error.what(), "a.toml: lr: missing");
}

TEST(Check, NamesConditionAndValues) {
  const int rows = 3;
  try {
    NG_CHECK(rows == 4, rows);
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("rows == 4 [rows = 3]"), std::string::npos);
  }
}

}  // namespace
}  // namespace ng
