// `study` as a user calls it.
#include "base/json.h"
#include "program.h"

namespace ng::e2e {
namespace {

class Study : public Program {};

TEST_F(Study, IsListedWithoutAName) {
  const Json all = Json::parse(run_well({"study", "--json"}));
  std::vector<std::string> names;
  for (const Json& study : all) names.push_back(study["name"]);
  EXPECT_EQ(names, (std::vector<std::string>{"scales", "hadamard", "rounding", "gradients"}));
  EXPECT_NE(run_well({"study"}).find("hadamard"), std::string::npos);
}

TEST_F(Study, WritesNumbersAndAPage) {
  const std::string printed = run_well({"study", "hadamard", "--seed", "3"});
  EXPECT_NE(printed.find("MXFP4"), std::string::npos);
  const fs::path written = path("studies/hadamard");
  EXPECT_EQ(Json::parse(text_of(written / "hadamard.json"))["seed"], 3);
  const std::string page = text_of(written / "index.html");
  EXPECT_NE(page.find("<svg"), std::string::npos);
  EXPECT_NE(page.find("narrowgauge study hadamard --seed 3"), std::string::npos);

  const Json again =
      Json::parse(run_well({"study", "hadamard", "--seed", "3", "--json", "--out", "o"}));
  EXPECT_EQ(again["sections"], Json::parse(text_of(written / "hadamard.json"))["sections"]);
  EXPECT_EQ(text_of(path("o/hadamard.csv")), text_of(written / "hadamard.csv"));
}

TEST_F(Study, FailsBeforeTheWorkWhereItCannotWrite) {
  write_text(path("taken"), "a file");
  expect_refused({"study", "scales", "--out", "taken"}, 1, {"taken"});
  EXPECT_EQ(text_of(path("taken")), "a file");
}

TEST_F(Study, UnknownNamesAreRefused) {
  expect_refused({"study", "scale"}, 1, {"scale", "did you mean \"scales\"?"});
  EXPECT_FALSE(fs::exists(path("studies")));
}

TEST_F(Study, LooksAtTheGradientsOfARun) {
  (void)run_well({"train", "tiny.toml", "--set", "train.steps=4", "--set",
                  "train.checkpoint_every=2", "--out", "r"});
  const std::string printed = run_well({"study", "gradients", "r", "--steps", "2,4", "--recipes",
                                        "bf16,mxfp4-nr", "--draws", "2", "--out", "g"});
  EXPECT_NE(printed.find("Projection"), std::string::npos);
  EXPECT_NE(text_of(path("g/gradients.csv")).find("projection,mxfp4-nr,step 4,"),
            std::string::npos);
  EXPECT_NE(text_of(path("g/index.html"))
                .find("narrowgauge study gradients r --steps 2,4 --recipes bf16,mxfp4-nr "
                      "--draws 2 --out g --seed 1"),
            std::string::npos);
}

TEST_F(Study, LeavesNoFolderWhereItIsRefused) {
  expect_refused({"study", "gradients", "--out", "a/b"}, 1, {"no run is named"});
  expect_refused({"study", "gradients", "nowhere"}, 1, {"nowhere"});
  EXPECT_FALSE(fs::exists(path("a")));
  EXPECT_FALSE(fs::exists(path("studies")));
}

TEST_F(Study, RefusesARunThatItCannotLookAt) {
  expect_refused({"study", "gradients"}, 1, {"no run is named"});
  expect_refused({"study", "gradients", "nowhere"}, 1, {"nowhere", "no such folder"});
  expect_refused({"study", "gradients", "r", "--draws", "1"}, 2, {"--draws"});
  expect_refused({"study", "scales", "r"}, 1, {"study scales", "looks at no run"});
  expect_refused({"study", "scales", "--recipes", "bf16"}, 1, {"looks at no run"});
}

}  // namespace
}  // namespace ng::e2e
