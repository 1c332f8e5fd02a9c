// `keys` and `recipes --explain`: what run files and recipes may say.
#include "base/json.h"
#include "program.h"

namespace ng::e2e {
namespace {

using Keys = Program;

TEST_F(Keys, AreAListOfBothVocabularies) {
  const Json all = Json::parse(run_well({"keys", "--json"}));
  int run_files = 0, recipes = 0;
  for (const Json& row : all) {
    for (const char* key : {"key", "type", "values", "meaning", "since", "example"})
      EXPECT_FALSE(row.at(key).get<std::string>().empty()) << row;
    EXPECT_TRUE(row.contains("default")) << row;
    ++(row["of"] == "recipe" ? recipes : run_files);
  }
  EXPECT_GT(run_files, 60);
  EXPECT_GT(recipes, 200);
  const Json one = Json::parse(run_well({"keys", "linear.dgrad.grad.block", "--json"}));
  ASSERT_EQ(one.size(), 1);
  EXPECT_EQ(one[0]["default"], "tensor");
  EXPECT_EQ(Json::parse(run_well({"keys", "train.betas", "--json"}))[0]["default"],
            Json::parse("[0.9, 0.95]"));
}

TEST_F(Keys, AreFoundByNameBeginningAndPattern) {
  const std::string hadamard = run_well({"keys", "recipe.linear.wgrad.hadamard"});
  EXPECT_NE(hadamard.find("0, 16, 32, 64 or 128"), std::string::npos) << hadamard;
  EXPECT_NE(hadamard.find("linear.wgrad.hadamard = 16"), std::string::npos) << hadamard;
  EXPECT_NE(run_well({"keys", "train."}).find("train.lr"), std::string::npos);
  EXPECT_NE(run_well({"keys", "*.hadamard"}).find("linear.fprop.hadamard"), std::string::npos);
  expect_refused(
      {"keys", "linear.wgrad.hadamrd"}, 1,
      {"unknown \"linear.wgrad.hadamrd\"", "nearest known key is linear.wgrad.hadamard"});
  expect_refused({"keys", "train.lr", "--markdown"}, 2, {"--markdown"});
}

TEST_F(Keys, StandBehindTheLinesOfARecipe) {
  const std::string text = run_well({"recipes", "nvfp4-late-bf16", "--explain"});
  EXPECT_NE(text.find("rounding: how each element is rounded"), std::string::npos) << text;
  EXPECT_NE(text.find("# share of training before it"), std::string::npos) << text;
  write_text(path("explained.toml"), text);
  EXPECT_EQ(Json::parse(run_well({"recipes", "explained.toml", "--json"}))["hash"],
            Json::parse(run_well({"recipes", "nvfp4-late-bf16", "--json"}))["hash"]);
  expect_refused({"recipes", "--explain"}, 2, {"--explain"});
}

}  // namespace
}  // namespace ng::e2e
