// `study` as a user calls it.
#include <fmt/format.h>

#include <cmath>

#include "base/json.h"
#include "io/safetensors.h"
#include "program.h"

namespace ng::e2e {
namespace {

class Study : public Program {};

TEST_F(Study, IsListedWithoutAName) {
  const Json all = Json::parse(run_well({"study", "--json"}));
  std::vector<std::string> names;
  for (const Json& study : all) names.push_back(study["name"]);
  EXPECT_EQ(names, (std::vector<std::string>{"scales", "hadamard", "rounding", "update", "noise",
                                             "gradients", "stability", "communication"}));
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

TEST_F(Study, DrawsWhatAFileDescribes) {
  write_text(path("c.json"), R"({"kind": "lines", "caption": "a < b", "x": [1, 2],
                                 "series": [{"name": "s", "y": [1, 2]}]})");
  const std::string svg = run_well({"study", "--draw", "c.json"});
  EXPECT_TRUE(svg.starts_with("<svg ")) << svg;
  EXPECT_NE(svg.find("a &lt; b"), std::string::npos);
  expect_refused({"study", "scales", "--draw", "c.json"}, 1, {"--draw"});
  expect_refused({"study", "--draw", "none.json"}, 1, {"none.json", "No such file"});
}

TEST_F(Study, UnknownNamesAreRefused) {
  expect_refused({"study", "scale"}, 1, {"scale", "did you mean \"scales\"?"});
  EXPECT_FALSE(fs::exists(path("studies")));
}

TEST_F(Study, LooksAtTheGradientsOfARun) {
  (void)run_well({"train", "tiny.toml", "--set", "train.steps=4", "--set",
                  "train.checkpoint_every=2", "--set", "train.length=20", "--out", "r"});
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

// A recipe whose keys are all those of FP32 leaves its gradient as it is.
TEST_F(Study, KeysGoOverEachRecipe) {
  (void)run_well(
      {"train", "tiny.toml", "--set", "train.steps=2", "--set", "train.length=20", "--out", "r"});
  std::vector<std::string> words = {"study", "gradients", "r",       "--recipes", "mxfp4-nr,bf16",
                                    "--out", "g",         "--draws", "2"};
  for (const char* key : {"recipe.linear=fp32", "recipe.compute=fp32"})
    words.insert(words.end(), {"--set", key});
  const std::string printed = run_well(words);
  EXPECT_NE(printed.find("Over each recipe: recipe.linear=fp32, recipe.compute=fp32."),
            std::string::npos)
      << printed;
  const std::string csv = text_of(path("g/gradients.csv"));
  for (const char* recipe : {"mxfp4-nr", "bf16"})
    EXPECT_NE(csv.find(fmt::format("projection,{},step 2,1,", recipe)), std::string::npos) << csv;
  EXPECT_NE(text_of(path("g/index.html"))
                .find("--recipes mxfp4-nr,bf16 --set recipe.linear=fp32 --set recipe.compute=fp32"),
            std::string::npos);
  const auto refuse = [&](const char* study, const char* key,
                          const std::vector<std::string>& parts) {
    expect_refused({"study", study, "r", "--recipes", "bf16", "--set", key}, 1, parts);
  };
  for (const char* study : {"gradients", "stability"})
    refuse(study, "recipe.linaer=fp32",
           {"recipe.linaer: unknown key: the nearest known key is recipe.linear"});
  refuse("stability", "train.lr=1", {"train.lr"});
  refuse("scales", "recipe.linear=fp32", {"looks at no run"});
}

TEST_F(Study, TrainsUpALadderOfRates) {
  const std::string printed = run_well(
      {"study", "stability", "tiny.toml", "--steps", "4", "--recipes", "bf16,diffq", "--out", "s"});
  EXPECT_NE(printed.find("This is a proxy."), std::string::npos);
  EXPECT_NE(printed.find("largest stable rate"), std::string::npos);
  EXPECT_NE(text_of(path("s/stability.csv")).find("_loss,2^-10,diffq,"), std::string::npos);
  EXPECT_NE(text_of(path("s/index.html"))
                .find("narrowgauge study stability tiny.toml --steps 4 --recipes bf16,diffq "
                      "--draws 1 --out s --seed 1"),
            std::string::npos);
}

/// What `study` wrote of a table: "table,row,column,value,...", commas in the table's name quoted.
double value_in(const std::string& csv, const std::string& record) {
  const size_t at = csv.find("\n" + record + ",");
  EXPECT_NE(at, std::string::npos) << record;
  return at == std::string::npos ? NAN : std::stod(csv.substr(at + record.size() + 2));
}

class StudyUpdate : public Program {
 protected:
  StudyUpdate() {
    std::vector<float> w, turn;
    for (int i = 0; i < 24 * 40; ++i) {
      w.push_back(0.02f * std::sin(0.37f * static_cast<float>(i * i % 991)));
      turn.push_back(std::cos(0.91f * static_cast<float>(i)));
    }
    std::vector<float> broken = w;
    broken[7] = NAN;
    const std::vector<float> zeros(w.size()), huge(w.size(), 3e38f);
    const std::vector<int64_t> ints(4);
    io::write_safetensors(path("f"), {{"w", "F32", {2, 12, 40}, w.data()},
                                      {"turn", "F32", {24, 40}, turn.data()},
                                      {"other", "F32", {40, 24}, turn.data()},
                                      {"broken", "F32", {24, 40}, broken.data()},
                                      {"huge", "F32", {24, 40}, huge.data()},
                                      {"zeros", "F32", {24, 40}, zeros.data()},
                                      {"ints", "I64", {2, 2}, ints.data()}});
  }
};

TEST_F(StudyUpdate, LooksAtATensorOfAFile) {
  const std::string printed = run_well(
      {"study", "update", "--file", "f", "--tensor", "w", "--direction", "turn", "--out", "o"});
  EXPECT_NE(printed.find("One step of w along turn"), std::string::npos);
  EXPECT_NE(printed.find("Weights w of 24 × 40"), std::string::npos);
  EXPECT_EQ(printed.find("specification"), std::string::npos);  // its figures are of N(0,1)
  EXPECT_NE(text_of(path("o/index.html"))
                .find("narrowgauge study update --file f --tensor w --direction turn --out o"),
            std::string::npos);
  // BF16 weights of 0.02 have an ulp of 2^-13 = 1.2e-4 at most: steps of 1e-2 are no trouble, of
  // 1e-6 rarely reach a border, and the residual has them all.
  const std::string csv = text_of(path("o/update.csv"));
  EXPECT_NEAR(value_in(csv, "\"rho, BF16\",1e-2,nearest"), 1, 0.01);
  EXPECT_LT(value_in(csv, "\"pi, BF16\",1e-6,nearest"), 0.3);
  EXPECT_NEAR(value_in(csv, "\"pi, BF16\",1e-6,residual 8"), 1, 0.1);
  EXPECT_NEAR(value_in(csv, "\"pi, BF16\",1e-6,fp32"), 1, 1e-2);
}

// Sums of steps overflow FP32: figures are missing, the study is not.
TEST_F(StudyUpdate, EndsWhereNumbersOverflow) {
  for (const char* direction : {"w", "huge"})
    (void)run_well({"study", "update", "--file", "f", "--tensor", "huge", "--direction", direction,
                    "--out", "o"});
  EXPECT_NE(text_of(path("o/index.html")).find("One step of huge along huge"), std::string::npos);
}

TEST_F(StudyUpdate, RefusesTensorsWithoutADirection) {
  const auto refuse = [&](const std::vector<std::string>& flags,
                          const std::vector<std::string>& parts) {
    std::vector<std::string> words = {"study", "update", "--out", "o"};
    words.insert(words.end(), flags.begin(), flags.end());
    expect_refused(words, 1, parts);
    EXPECT_FALSE(fs::exists(path("o")));
  };
  refuse({"--file", "f", "--tensor", "nobody"}, {"f", "nobody"});
  refuse({"--file", "nowhere", "--tensor", "w"}, {"nowhere"});
  refuse({"--file", "f", "--tensor", "ints"}, {"ints", "I64"});
  refuse({"--file", "f", "--tensor", "broken"}, {"broken", "NaN"});
  refuse({"--file", "f", "--tensor", "zeros"}, {"zeros", "zero everywhere"});
  refuse({"--file", "f", "--tensor", "w", "--direction", "other"},
         {"other", "(40, 24)", "(24, 40)"});
  refuse({"--file", "f"}, {"--tensor"});
  refuse({"--tensor", "w"}, {"--file"});
  expect_refused({"study", "scales", "--file", "f", "--tensor", "w"}, 1, {"looks at no tensor"});
  expect_refused({"study", "update", "r"}, 1, {"looks at no run"});
  expect_refused({"study", "update", "--file", ""}, 2, {"--file"});
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
  expect_refused({"study", "gradients", "r", "--draws", "1"}, 1, {"--draws: 1: 2 or more"});
  expect_refused({"study", "gradients", "r", "--draws", "0"}, 2, {"--draws"});
  expect_refused({"study", "stability", "nowhere"}, 1, {"nowhere", "no such folder"});
  expect_refused({"study", "stability", "--steps", "2,4"}, 1, {"--steps", "one number"});
  expect_refused({"study", "scales", "r"}, 1, {"study scales", "looks at no run"});
  expect_refused({"study", "scales", "--recipes", "bf16"}, 1, {"looks at no run"});
}

}  // namespace
}  // namespace ng::e2e
