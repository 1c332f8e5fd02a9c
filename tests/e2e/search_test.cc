// `recipes search` on small things: rungs, what is kept, Ctrl-C, hours, other settings, wrong
// words.
#include <algorithm>

#include "base/json.h"
#include "program.h"

namespace ng::e2e {
namespace {

class SearchCommand : public Program {
 protected:
  /// Four candidates beside mxfp4-nr, of which two train for 2 steps with two seeds.
  [[nodiscard]] static std::vector<std::string> search(const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"recipes",
                                     "search",
                                     "tiny.toml",
                                     "--base",
                                     "mxfp4-nr",
                                     "--grid",
                                     "recipe.linear.{dgrad,wgrad}.hadamard=0,16,32",
                                     "--recipes",
                                     "mxfp4-sr,mxfp4-all",
                                     "--draws",
                                     "2",
                                     "--set",
                                     "train.steps=2",
                                     "--out",
                                     "out"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  [[nodiscard]] Json json() const { return Json::parse(text_of(path("out/search.json"))); }
};

TEST_F(SearchCommand, RanksByGradientsThenByRunsAndSaysWhatIsDecided) {
  const std::string out = run_well(search());
  for (const char* part :
       {"search      4 candidates beside mxfp4-nr, by the loss in own numbers\n",
        "left out    recipe.linear.{dgrad,wgrad}.hadamard=0: the same recipe as mxfp4-nr\n",
        "gradients   2 draws of each, of bf16 after 2 steps: 2 stay\n",
        "rung 1      2 candidates, 2 runs each, 2 steps\n", "time        about ",
        "reference: bf16\n", "  mxfp4-nr: bias ", "8 of 8: out/rung-1/",
        "  the best: ", "What became of the candidates\n", "gradients: rank 4 of 4",
        "Not decided:\n", "out/search.md\n"})
    EXPECT_NE(out.find(part), std::string::npos) << part << " in\n" << out;

  const Json found = json();
  ASSERT_EQ(found["candidates"].size(), 4u);
  EXPECT_EQ(found["is_complete"], true);
  EXPECT_EQ(found["candidates"][0]["label"], "c1");
  EXPECT_EQ(found["candidates"][0]["recipe"], "out/recipes/c1.toml");
  EXPECT_EQ(found["candidates"][0]["bits"]["dgrad"], Json::array({4.25, 4.25}));
  EXPECT_EQ(found["candidates"][3]["label"], "mxfp4-all");
  EXPECT_EQ(found["candidates"][3]["bits"]["fprop"], Json::array({4.25, 4.25}));
  const Json& rung = found["rungs"].at(0);
  ASSERT_EQ(rung["to_base"].size(), 4u) << "the base, bf16 and two candidates";
  EXPECT_EQ(rung["to_base"][0]["label"], "mxfp4-nr");
  EXPECT_EQ(rung["to_base"][1]["label"], "bf16");
  EXPECT_EQ(found["best"], rung["kept"][0]);
  EXPECT_TRUE(fs::exists(path("out/rung-1/bf16-seed2/model")));
  EXPECT_TRUE(fs::exists(path("out/rung-1/compare.json")));
  const std::string markdown = text_of(path("out/search.md"));
  EXPECT_EQ(markdown.rfind("# Recipes searched on tiny\n", 0), 0u) << markdown;
  const std::string csv = text_of(path("out/search.csv"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 5) << csv;
  EXPECT_NE(text_of(path("out/report.html")).find("rung-1/report.html"), std::string::npos);
  EXPECT_NE(run_well({"recipes", "out/recipes/c2.toml"}).find("hadamard = 32"), std::string::npos);

  // A run and a gradient that are missing are made again, and nothing else.
  const std::string weights_before = weights("out/rung-1/bf16-seed2");
  Json scores = Json::parse(text_of(path("out/gradients.json")));
  const Json kept = scores["scores"]["mxfp4-sr"];
  scores["scores"].erase("mxfp4-sr");
  write_text(path("out/gradients.json"), scores.dump(2) + "\n");
  fs::remove_all(path("out/rung-1/bf16-seed2"));
  const Json again = Json::parse(run_well(search({"--json"})));
  EXPECT_EQ(again["rungs"], found["rungs"]);
  EXPECT_EQ(Json::parse(text_of(path("out/gradients.json")))["scores"]["mxfp4-sr"], kept);
  EXPECT_EQ(weights("out/rung-1/bf16-seed2"), weights_before);

  expect_refused(search({"--seeds", "3"}), 1,
                 {"out/search.json", "--seeds", "its search has 2, this one 3", "another --out"});
  expect_refused(search({"--set", "train.lr=1e-4"}), 1, {"out/search.json", "train.lr", "0.0001"});
  EXPECT_EQ(json(), found);
}

TEST_F(SearchCommand, StopsAtASignalAndGoesOn) {
  const std::vector<std::string> long_ones = {
      "recipes", "search", "tiny.toml",          "--base", "bf16", "--recipes", "fp32", "--draws",
      "2",       "--set",  "train.steps=100000", "--out",  "out"};
  Process process(long_ones, folder_);
  process.read_until(
      [](const std::string& out) { return out.find("  step 12") != std::string::npos; });
  process.send(SIGINT);
  const Result result = process.wait();
  EXPECT_EQ(result.code, 128 + SIGINT) << result.err;
  EXPECT_NE(result.out.find("stopped; to go on: "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find(" recipes search tiny.toml --set train.steps=100000 --base bf16 "
                            "--recipes fp32 --draws 2 --out out\n"),
            std::string::npos)
      << result.out;
  EXPECT_FALSE(fs::is_empty(path("out/reference/bf16-seed1/checkpoints")));
  EXPECT_EQ(json()["is_complete"], false);

  std::vector<std::string> short_of_time = long_ones;
  short_of_time.insert(short_of_time.end(), {"--hours", "0.0003"});
  const Result later = run(short_of_time);
  EXPECT_EQ(later.code, 4) << later.err;
  EXPECT_NE(later.err.find("within --hours 0.0003; to go on"), std::string::npos) << later.err;
}

TEST_F(SearchCommand, RefusesBeforeAnythingRuns) {
  const auto refuses = [&](const std::vector<std::string>& more,
                           const std::vector<std::string>& words, int code = 1) {
    std::vector<std::string> args = {"recipes", "search", "tiny.toml", "--out", "out"};
    args.insert(args.end(), more.begin(), more.end());
    expect_refused(args, code, words);
  };
  refuses({"--base", "nvfp4-all"}, {"no candidate"});
  refuses({"--base", "nvfp4-all", "--grid", "recipe.linear.wgrad.hadamrd=0"}, {"hadamard"});
  refuses({"--base", "nvfp4-all", "--recipes", "nvfp5"}, {"nvfp5"});
  refuses({"--base", "nvfp4-all", "--grid", "train.lr=1,2"}, {"--grid", "train.lr", "no key of a"});
  refuses({"--base", "nvfp4-all", "--recipes", "ufp4", "--set", "recipe.linear.wgrad.hadamard=0"},
          {"--set", "over which of the recipes"});
  refuses({"--base", "nvfp4-all", "--recipes", "ufp4", "--keep", "2"},
          {"--keep", "2 of 1 candidate"});
  refuses({"--base", "nvfp4-all", "--recipes", "ufp4", "--steps", "99"},
          {"--steps", "at most train.steps, 12"});
  refuses({"--base", "nvfp4-all", "--recipes", "ufp4,mxfp4-nr,mxfp4-sr", "--keep", "3", "--steps",
           "2", "--set", "train.warmup=6"},
          {"--steps", "not more than train.warmup, 6"});
  write_text(path("lora.toml"), "model.init = 'base'\nlora.rank = 4\ndata.train = 'tiny.txt'\n");
  expect_refused({"recipes", "search", "lora.toml", "--base", "nvfp4-all", "--recipes", "ufp4"}, 1,
                 {"lora.rank", "gradients of whole models"});
  expect_refused({"recipes", "search", "tiny.toml", "--base", "nvfp4-all", "--recipes", "ufp4",
                  "--out", "tiny.txt"},
                 1, {"tiny.txt", "is a file, not a folder"});
  expect_refused({"recipes", "--threads", "2", "search", "tiny.toml", "--base", "nvfp4-all"}, 2,
                 {"--threads", "not before search"});
  expect_refused({"recipes", "--json", "search", "tiny.toml", "--base", "nvfp4-all"}, 2,
                 {"--json", "not before search"});
  refuses({"--recipes", "ufp4"}, {"--base is required"}, 2);
  refuses({"--base", "nvfp4-all", "--explain"}, {"--explain", "search"}, 2);
  write_text(path("last.toml"), "inherit = 'bf16'\n[[override]]\nblocks = '7:'\nlinear = 'fp32'\n");
  refuses({"--base", "nvfp4-all", "--recipes", "last.toml"}, {"means no layer", "(recipe last)"});
  EXPECT_FALSE(fs::exists(path("out")));
}

}  // namespace
}  // namespace ng::e2e
