// What is expected is what Python's re.match(rf"(.*\.)?({key})$", name) says.
#include "tokenizer/name_pattern.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ng {
namespace {

bool is_meant(const std::string& key, std::string_view name) {
  return NamePattern("(.*\\.)?(" + key + ")$", "file", "key").matches(name);
}

TEST(NamePattern, MatchesEndsOfNamesAsPythonDoes) {
  constexpr const char* kName = "model.layers.11.self_attn.q_proj";
  EXPECT_TRUE(is_meant("q_proj", kName));
  EXPECT_TRUE(is_meant("self_attn.q_proj", kName));
  EXPECT_TRUE(is_meant("^model.layers.11.self_attn.q_proj", kName));
  EXPECT_TRUE(is_meant(R"(layers\.1\d\..*)", kName));
  EXPECT_TRUE(is_meant("(?P<part>[qk])_proj", kName));
  EXPECT_TRUE(is_meant("k_proj)$|(.*q_proj", kName)) << "as text: nothing is escaped";
  EXPECT_FALSE(is_meant("proj", kName)) << "no whole part of the name";
  EXPECT_FALSE(is_meant("q_pro", kName));
  EXPECT_FALSE(is_meant("^layers.*q_proj", kName));
  EXPECT_FALSE(is_meant("model.layers.1.self_attn.q_proj", kName));
}

TEST(NamePattern, RefusesWhatItCannotReadAndWhatTakesTooLong) {
  const auto refusal = [](const std::string& key) -> std::string {
    try {
      (void)is_meant(key, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal("a["),
            "file: key: missing terminating ] for character class: a name, or a regular "
            "expression of names");
  EXPECT_EQ(refusal("(a+)+").find("file: key: takes too long to match aaa"), 0u);
}

}  // namespace
}  // namespace ng
