// `learned`: what weight noise learned, as a recipe and a model.
#include "base/json.h"
#include "program.h"

namespace ng::e2e {
namespace {

class Learned : public Program {
 protected:
  void train(const std::string& recipe, const std::string& out) const {
    const Result result = run({"train", "tiny.toml", "--recipe", recipe, "--out", out});
    ASSERT_EQ(result.code, 0) << result.err;
  }
};

TEST_F(Learned, WritesWhatEvalAndTrainTake) {
  train("gaussws-all", "r");
  train("bf16", "b");
  const Json json =
      Json::parse(run_well({"learned", "r", "--data", "tiny.txt", "--against", "b", "--json"}));
  EXPECT_EQ(json["step"], 12);
  EXPECT_EQ(json["layers"].size(), 14u);
  const Json& losses = json["losses"];
  EXPECT_EQ(losses[0]["cast"], "uncast");
  EXPECT_EQ(losses[1]["cast"], "by layer");
  EXPECT_EQ(losses[2]["cast"], "by block");
  EXPECT_EQ(losses[losses.size() - 1]["run"], "b");
  EXPECT_EQ(losses[losses.size() - 3]["numbers"], "bf16") << "the rival's own recipe";
  EXPECT_EQ(losses[0]["numbers"], losses[1]["numbers"]);
  EXPECT_EQ(Json::parse(text_of(path("r/learned/learned.json"))), json);
  const Json evaluated =
      Json::parse(run_well({"eval", "r/learned/model", "--recipe", "r/learned/recipe.toml",
                            "--data", "tiny.txt", "--json"}));
  EXPECT_EQ(evaluated["loss"], losses[1]["loss"]);
  train("r/learned/recipe.toml", "again");
  const std::string text = run_well({"learned", "r", "--step", "8", "--out", "d"});
  EXPECT_NE(text.find("step 8 of r, recipe gaussws-all"), std::string::npos) << text;
  EXPECT_NE(text.find("blocks.1.mlp.down"), std::string::npos) << text;
  EXPECT_NE(text.find("products in"), std::string::npos) << text;
  EXPECT_NE(text.find(") means: 14 layers, blocks.0.attn.q"), std::string::npos) << text;
  EXPECT_NE(text.find("d/recipe.toml\nd/model\nd/learned.json\n"), std::string::npos) << text;
}

TEST_F(Learned, ThreadsChangeNoBit) {
  train("diffq", "r");
  (void)run_well({"learned", "r", "--threads", "1", "--out", "one"});
  (void)run_well({"learned", "r", "--threads", "3", "--out", "three"});
  EXPECT_EQ(text_of(path("one/model/model.safetensors")),
            text_of(path("three/model/model.safetensors")));
  const Json one = Json::parse(text_of(path("one/learned.json")));
  EXPECT_EQ(one["losses"], Json::parse(text_of(path("three/learned.json")))["losses"]);
}

TEST_F(Learned, RefusesInOneLine) {
  expect_refused({"learned"}, 2, {"RUN"});
  expect_refused({"learned", "r", "--per", "row"}, 2, {"--per", "row"});
  expect_refused({"learned", "r", "--least-bits", "7"}, 2, {"--least-bits", "7"});
  expect_refused({"learned", "r"}, 1, {"r: no such folder", "run.toml"});
  train("gaussws-all", "r");
  train("bf16", "b");
  expect_refused({"learned", "b"}, 1, {"b: weight_noise", "recipe bf16 has none"});
  expect_refused({"learned", "r", "--step", "5"}, 1, {"no checkpoint of step 5", "12, 8"});
  expect_refused({"learned", "r", "--data", "no.txt"}, 1, {"no.txt"});
  expect_refused({"learned", "r", "--out", "b"}, 1, {"b: holds", "another --out"});
  expect_refused({"learned", "r", "--against", "none"}, 1, {"none: no such folder"});
  EXPECT_FALSE(fs::exists(path("r/learned"))) << "nothing half-written";
}

}  // namespace
}  // namespace ng::e2e
