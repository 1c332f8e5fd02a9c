// `keys` and `recipes --explain`: what run files and recipes may say; recipe keys in settings.
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
  const std::string start = run_well({"keys", "phase.start"});
  EXPECT_NE(start.find("phase = [{linear = \"bf16\", start = 0.8}]"), std::string::npos) << start;
  EXPECT_NE(run_well({"keys", "train."}).find("train.lr"), std::string::npos);
  EXPECT_NE(run_well({"keys", "*.hadamard"}).find("linear.fprop.hadamard"), std::string::npos);
  EXPECT_NE(run_well({"keys", "prescale"}).find("linear.dgrad.weight.prescale"), std::string::npos);
  EXPECT_TRUE(run_well({"keys", "lr"}).starts_with("train.lr\n"));
  expect_refused({"keys", "hadamar"}, 1,
                 {"unknown \"hadamar\"", "nearest known key is linear.fprop.hadamard"});
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

TEST_F(Keys, OfARecipeStandInSettingsAndTheRunsFolder) {
  const std::vector<std::string> out = {"--threads", "1", "--out", "run"};
  const auto train = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "train");
    words.insert(words.end(), out.begin(), out.end());
    return words;
  };
  (void)run_well(
      train({"tiny.toml", "--set", "train.steps=4", "--set", "recipe.linear.wgrad.hadamard=16"}));
  EXPECT_NE(text_of(path("run/run.toml"))
                .find("recipe = {inherit = \"mxfp4-sr-rht\", linear.wgrad.hadamard = 16}\n"),
            std::string::npos)
      << text_of(path("run/run.toml"));
  (void)run_well(train({"run/run.toml", "--set", "train.steps=5", "--resume"}));
  const Result other = run(train({"tiny.toml", "--set", "train.steps=6", "--resume"}));
  EXPECT_EQ(other.code, 1);
  EXPECT_NE(other.err.find("linear.wgrad.hadamard: 16 -> 64"), std::string::npos) << other.err;
  expect_refused(train({"tiny.toml", "--set", "linear.wgrad.hadamard=16"}), 1,
                 {"a recipe's keys stand below recipe: recipe.linear.wgrad.hadamard"});
}

TEST_F(Keys, OfARecipeGoOverTheOneThatACommandNames) {
  write_text(path("mine.toml"), "inherit = 'nvfp4'\nlinear.wgrad.hadamard = 0\n");
  const std::string setting = "recipe.linear.wgrad.hadamard=0";
  EXPECT_EQ(Json::parse(run_well({"recipes", "nvfp4", "--set", setting, "--json"}))["hash"],
            Json::parse(run_well({"recipes", "mine.toml", "--json"}))["hash"]);
  const Json plan = Json::parse(run_well(
      {"plan", "gpt2-124m", "--ranks", "2", "--recipe", "nvfp4", "--set", setting, "--json"}));
  EXPECT_EQ(plan["recipe"], "nvfp4 with linear.wgrad.hadamard = 0");
  expect_refused({"plan", "gpt2-124m", "--ranks", "2", "--set", "recipe.linear.wgrad.hadamard=5"},
                 1, {"recipe.linear.wgrad.hadamard: 5: 0, 16, 32, 64 or 128"});
  expect_refused({"recipes", "--set", setting}, 1, {"--set", "of which recipe?"});
}

}  // namespace
}  // namespace ng::e2e
