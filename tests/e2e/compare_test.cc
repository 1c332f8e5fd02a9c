// `compare` on small things: tables, what is kept, grids, hours, what diverged.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "program.h"

namespace ng::e2e {
namespace {

using CompareCommand = Program;

TEST_F(CompareCommand, SaysWhichLayersOverridesMean) {
  const std::vector<std::string> args = {
      "compare", "tiny.toml", "--recipes", "nvfp4,mxfp4-sr-rht", "--seeds", "1",
      "--out",   "out",       "--set",     "train.steps=2"};
  const std::string out = run_well(args), markdown = text_of(path("out/compare.md"));
  EXPECT_NE(out.find("nvfp4: override[1] (blocks = "), std::string::npos);
  EXPECT_NE(markdown.find("- nvfp4: override[1]"), std::string::npos);
  const std::string one =
      "A forward pass in BF16 makes one figure of the two losses: those of mxfp4-sr-rht are the "
      "same.\n";
  EXPECT_NE(out.find(one), std::string::npos) << out;
  EXPECT_NE(markdown.find("- " + one), std::string::npos) << markdown;
  const Json json = Json::parse(text_of(path("out/compare.json")));
  EXPECT_GT(json["recipes"][0]["matches"][0]["matched"].size(), 0u);
}

TEST_F(CompareCommand, SaysTheKeysOverEachRecipe) {
  const std::string key = "recipe.linear.dgrad.grad.rounding=stochastic";
  const std::string out =
      run_well({"compare", "tiny.toml", "--recipes", "mxfp4-nr", "--seeds", "1", "--out", "out",
                "--set", "train.steps=2", "--set", key, "--set", "train.save_dtype=F16"});
  EXPECT_NE(out.find("which train.save_dtype rounds to F16"), std::string::npos) << out;
  EXPECT_NE(out.find(" Over each recipe: " + key + "."), std::string::npos) << out;
  EXPECT_NE(out.find("other draws of rounding"), std::string::npos) << "its twin draws: " << out;
  for (const char* file : {"out/compare.md", "out/compare.csv", "out/report.html"})
    EXPECT_NE(text_of(path(file)).find(key), std::string::npos) << file;
  const Json json = Json::parse(text_of(path("out/compare.json")));
  EXPECT_EQ(json["settings"]["recipe_keys"], Json::array({key}));
  for (const Json& row : json["recipes"]) {
    EXPECT_EQ(row["recipe"], "mxfp4-nr");
    EXPECT_EQ(row["recipe_hash"].get<std::string>().size(), 16u) << row;
    EXPECT_NE(row["recipe_name"], nullptr) << row;
  }
}

TEST_F(CompareCommand, SaysWhatWasReadAndLeftOut) {
  fs::create_directories(path("texts"));
  fs::copy_file(path("tiny.txt"), path("texts/tiny.txt"));
  write_text(path("texts/tiny.md"), "left out");
  const std::vector<std::string> args = {
      "compare", "tiny.toml",        "--recipes", "nvfp4",         "--seeds", "1",  "--no-twin",
      "--set",   "data.train=texts", "--set",     "train.steps=2", "--out",   "out"};
  const std::string out = run_well(args);
  const std::string texts = "texts: 1 file (2.6 KiB); left out 1 (8 B): 1 .md by pattern";
  const std::string where = "5 % of that text: the end of the text";
  EXPECT_NE(out.find(". Trained on " + texts + ". Validated on " + where + "."), std::string::npos)
      << out;
  EXPECT_NE(text_of(path("out/compare.md")).find(texts), std::string::npos);
  const std::string page = text_of(path("out/report.html"));
  for (const std::string& part :
       {texts, where, std::string("1, from 1 on"), std::string("nvfp4: override[1] (blocks = ")})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  EXPECT_NE(run_well(args).find(texts), std::string::npos) << "of runs from before, too";
}

TEST_F(CompareCommand, GivesATableAndSkipsWhatIsFinished) {
  const std::vector<std::string> args = {
      "compare", "tiny.toml", "--recipes", "fp32,mxfp4-all", "--seeds",
      "2",       "--out",     "out",       "--set",          "train.steps=4"};
  const std::string out = run_well(args);
  for (const char* part :
       {"validation loss", "in BF16", " ± ", "Student's t", "Noise floor: mxfp4-all"})
    EXPECT_NE(out.find(part), std::string::npos) << part << "\n" << out;
  const std::string csv = text_of(path("out/compare.csv"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 4) << csv;
  const std::string markdown = text_of(path("out/compare.md"));
  EXPECT_EQ(markdown.rfind("# Recipes compared on tiny\n", 0), 0u) << markdown;
  EXPECT_NE(markdown.find("\n| `mxfp4-all, twin, to its own` |"), std::string::npos) << markdown;
  const Json json = Json::parse(text_of(path("out/compare.json")));
  ASSERT_EQ(json["recipes"].size(), 3u);
  ASSERT_EQ(json["runs"].size(), 6u);
  EXPECT_EQ(json["recipes"][0]["difference"], 0.0);
  EXPECT_EQ(json["recipes"][2]["twin"], "draws");
  EXPECT_EQ(json["recipes"][0]["matches"].size(), 0u);
  EXPECT_EQ(json["recipes"][2]["phases"].size(), 1u);
  const double a = json["runs"][0]["val_loss"], b = json["runs"][1]["val_loss"];
  EXPECT_NE(a, b) << "another seed";
  EXPECT_NEAR(json["recipes"][0]["val_loss"].get<double>(), (a + b) / 2, 1e-12);
  EXPECT_NEAR(json["recipes"][0]["val_loss_sd"].get<double>(), std::fabs(a - b) / std::sqrt(2.0),
              1e-12);
  EXPECT_NE(json["runs"][2]["val_loss"], json["runs"][2]["val_loss_bf16"]);
  EXPECT_EQ(json["settings"]["train.steps"], "4");
  EXPECT_EQ(json["unfinished"].size(), 0u);
  const std::string speed =
      "tokens/s are medians of steps on " + json["runs"][0]["machine"].get<std::string>();
  EXPECT_NE(speed.find(", 1 thread"), std::string::npos) << speed;
  EXPECT_NE(out.find(speed + "\n"), std::string::npos) << out;
  EXPECT_NE(markdown.find(speed + ".\n"), std::string::npos) << markdown;

  fs::remove_all(path("out/mxfp4-all-seed2"));
  std::vector<std::string> again = args;
  again.emplace_back("--json");
  const Json repeated = Json::parse(run_well(again));
  EXPECT_EQ(repeated["runs"][3]["val_loss"], json["runs"][3]["val_loss"]);
  EXPECT_EQ(repeated["runs"][0], json["runs"][0]) << "not repeated, speed included";
  again.insert(again.end(), {"--set", "train.lr=1e-4"});
  expect_refused(again, 1,
                 {"out/fp32-seed1", "another run file or recipe", "train.lr is ", "0.0001 here"});
}

TEST_F(CompareCommand, HasThreeSeedsAndSaysThatOneJudgesNothing) {
  const std::vector<std::string> args = {"compare",   "tiny.toml", "--recipes",
                                         "fp32,bf16", "--no-twin", "--out",
                                         "out",       "--set",     "train.steps=2"};
  (void)run_well(args);
  EXPECT_EQ(Json::parse(text_of(path("out/compare.json")))["runs"].size(), 6u);
  std::vector<std::string> once = args;
  once.insert(once.end(), {"--seeds", "1"});
  const std::string out = run_well(once);
  EXPECT_NE(out.find("One seed: differences cannot be judged"), std::string::npos) << out;
  EXPECT_NE(out.find("one seed"), std::string::npos) << out;
}

TEST_F(CompareCommand, MultipliesAGrid) {
  const std::vector<std::string> args = {
      "compare", "tiny.toml",          "--recipes", "fp32,bf16",       "--seeds",   "1",
      "--grid",  "train.lr=1e-2,1e-3", "--grid",    "train.steps=2,3", "--no-twin", "--out",
      "out"};
  const std::string out = run_well(args);
  EXPECT_NE(out.find("train.lr"), std::string::npos) << out;
  const Json json = Json::parse(text_of(path("out/compare.json")));
  ASSERT_EQ(json["recipes"].size(), 8u);
  EXPECT_EQ(json["recipes"][7]["settings"],
            Json::parse(R"({"train.lr":"1e-3","train.steps":"3"})"));
  EXPECT_TRUE(fs::exists(path("out/train.lr=1e-3,train.steps=3/bf16-seed1/model")));
  EXPECT_EQ(json["statistics"]["intervals"].size(), 4u);
  expect_refused({"compare", "tiny.toml", "--recipes", "fp32", "--grid", "train.lr"}, 1,
                 {"--grid", "train.lr=1e-3,2e-3"});
  const std::string before = text_of(path("out/compare.md"));
  expect_refused({"compare", "tiny.toml", "--recipes", "fp32,bf16", "--seeds", "1", "--set",
                  "train.steps=4", "--no-twin", "--out", "out"},
                 1, {"out/compare.json", "--grid", "train.lr, train.steps", "another --out"});
  EXPECT_EQ(text_of(path("out/compare.md")), before);
}

TEST_F(CompareCommand, RefusesARecipeBeforeAnyRun) {
  write_text(path("last.toml"), "inherit = 'bf16'\n[[override]]\nblocks = '1:'\nlinear = 'fp32'\n");
  const std::vector<std::string> args = {
      "compare", "tiny.toml", "--recipes", "bf16,last.toml", "--seeds",
      "1",       "--out",     "out",       "--grid",         "model.layers=2,1"};
  expect_refused(args, 1,
                 {"last.toml:2: override[1]: blocks = \"1:\" means no layer: ",
                  " (recipe last, --grid model.layers=1)"});
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(CompareCommand, RefusesAKeyByTheRecipeThatItDoesNotSuit) {
  const auto refuses = [&](const std::string& recipes) {
    expect_refused({"compare", "tiny.toml", "--recipes", recipes, "--seeds", "1", "--out", "out",
                    "--grid", "recipe.linear.fprop.input.scale_rule=rceil"},
                   1,
                   {"recipe.linear.fprop.input.scale_rule: \"rceil\" for \"none\" scales: ",
                    " (recipe bf16, --grid recipe.linear.fprop.input.scale_rule=rceil)"});
  };
  refuses("bf16,mxfp4-all");
  refuses("mxfp4-all,bf16");
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(CompareCommand, SaysNumbersOfEachPointOfAGrid) {
  write_text(path("late.toml"),
             "inherit = 'mxfp4-all'\n[[override]]\nblocks = '-1:'\nlinear = 'bf16'\n"
             "[[phase]]\nstart = 0.5\nlinear.fprop = {input = 'bf16', weight = 'bf16'}\n");
  const std::string out =
      run_well({"compare", "tiny.toml", "--recipes", "late.toml", "--seeds", "1", "--no-twin",
                "--grid", "recipe.phase[1].start=0.3,0.9", "--grid", "model.layers=2,3", "--set",
                "train.steps=2", "--out", "out"});
  const Json rows = Json::parse(text_of(path("out/compare.json")))["recipes"];
  ASSERT_EQ(rows.size(), 4u);
  for (const Json& row : rows) {
    const Json& settings = row["settings"];
    EXPECT_EQ(row["phases"][1].dump(), settings["recipe.phase[1].start"]) << row;
    const int last = std::stoi(settings["model.layers"].get<std::string>()) - 1;
    EXPECT_EQ(row["matches"][0]["matched"][0], fmt::format("blocks.{}.attn.q", last)) << row;
  }
  for (const char* line :
       {"late, recipe.phase[1].start=0.9, model.layers=2 is validated in its phase 1 (the last of "
        "2: "
        "from 90 % ",
        "late, recipe.phase[1].start=0.3, model.layers=2: override[1] (blocks = \"-1:\") means: 7 "
        "layers, blocks.1."})
    EXPECT_NE(out.find(line), std::string::npos) << line << "\n" << out;
}

TEST_F(CompareCommand, StopsWhereTheHoursEnd) {
  std::vector<std::string> args = {"compare",   "tiny.toml", "--recipes",
                                   "fp32,bf16", "--out",     "out"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = args;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const Result first = run(with({"--set", "train.steps=1000000", "--hours", "0.0005"}));
  EXPECT_EQ(first.code, 4) << first.err;
  EXPECT_NE(first.err.find("no other run ends within --hours 0.0005: 9 of 9 runs are missing; to "
                           "go on: "),
            std::string::npos)
      << first.err;
  EXPECT_NE(first.err.find(" compare tiny.toml --set train.steps=1000000 --recipes fp32,bf16 "
                           "--hours 0.0005 --out out\n"),
            std::string::npos)
      << first.err;
  EXPECT_FALSE(fs::is_empty(path("out/fp32-seed1/checkpoints"))) << "the next call goes on";
  EXPECT_FALSE(fs::exists(path("out/bf16-seed1")));

  fs::remove_all(path("out"));
  args.insert(args.end(), {"--set", "train.steps=3"});
  (void)run_well(with({"--seeds", "1"}));
  const Result later = run(with({"--seeds", "2", "--hours", "1e-9"}));
  EXPECT_EQ(later.code, 4) << later.err;
  EXPECT_NE(later.err.find(": 3 of 6 runs are missing; to go on: "), std::string::npos)
      << later.err;
  EXPECT_NE(later.err.find("no run ends within --hours 1e-9, the next takes about "),
            std::string::npos)
      << later.err;
  EXPECT_EQ(later.err.find("1e-9", later.err.find("to go on")), std::string::npos)
      << "more hours are asked for:\n"
      << later.err;
  EXPECT_NE(later.out.find("3 of 6: out/"), std::string::npos) << later.out;
  EXPECT_EQ(later.out.find("4 of 6: "), std::string::npos) << "it is not begun:\n" << later.out;
  EXPECT_FALSE(fs::exists(path("out/fp32-seed2"))) << "not begun";
  EXPECT_NE(later.out.find("3 of 6 runs are missing"), std::string::npos) << later.out;
  EXPECT_EQ(Json::parse(text_of(path("out/compare.json")))["unfinished"].size(), 3u);

  fs::remove_all(path("out"));
  const Result never = run(with({"--hours", "1e-9"}));
  EXPECT_EQ(never.code, 4) << never.err;
  EXPECT_NE(
      never.err.find("no run begins within --hours 1e-9: 9 of 9 runs are missing; to go on: "),
      std::string::npos)
      << never.err;
  EXPECT_EQ(never.err.find("1e-9", never.err.find("to go on")), std::string::npos) << never.err;
}

constexpr const char* kDiverges =
    "inherit = 'bf16'\n[linear.fprop.input]\n"
    "format = 'fp16'\noverflow = 'special'\nprescale = 65536\n";

TEST_F(CompareCommand, SaysWhatDiverged) {
  write_text(path("bad.toml"), kDiverges);
  const std::vector<std::string> args = {
      "compare", "--recipes", "fp32,bad.toml,bf16", "--seeds", "1", "--no-twin", "--out", "out",
      "--set",   "seed=7",    "tiny.toml"};
  const Result first = run(args);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_NE(first.err.find("5 steps in a row, since step 1"), std::string::npos) << first.err;
  EXPECT_NE(first.out.find("diverged"), std::string::npos) << first.out;
  EXPECT_NE(text_of(path("out/bad-seed7/metrics.jsonl")).find("\"diverged\""), std::string::npos);
  EXPECT_NE(text_of(path("out/report.html")).find("diverged at step 1"), std::string::npos);
  const Json json = Json::parse(text_of(path("out/compare.json")));
  EXPECT_EQ(json["recipes"][1]["diverged"], 1);
  EXPECT_EQ(json["recipes"][1]["val_loss"], nullptr);
  EXPECT_EQ(json["runs"][1]["seed"], 7);
  EXPECT_EQ(json["runs"][1]["diverged_at"], 1);
  EXPECT_GT(json["recipes"][2]["val_loss"], 0.0);
  const Result again = run(args);
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.out.find("is already finished"), std::string::npos) << again.out;
}

TEST_F(CompareCommand, RefusesSeedsThatNoRunCanHave) {
  expect_refused({"compare", "tiny.toml", "--recipes", "fp32", "--seeds", "2", "--set",
                  "seed=9223372036854775807"},
                 1, {"seed", "9223372036854775807"});
}

// Too few steps to give up; the baseline, so that nothing can be compared with it.
TEST_F(CompareCommand, TakesARunWithoutAFiniteLoss) {
  write_text(path("bad.toml"), kDiverges);
  const std::vector<std::string> args = {"compare", "tiny.toml", "--recipes",    "bad.toml,bf16",
                                         "--seeds", "1",         "--no-twin",    "--out",
                                         "out",     "--set",     "train.steps=4"};
  for (int call = 0; call < 2; ++call) {
    const Result result = run(args);
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_NE(result.out.find("diverged"), std::string::npos) << result.out;
  }
  const Json json = Json::parse(text_of(path("out/compare.json")));
  EXPECT_EQ(json["runs"][0]["val_loss"], nullptr);
  EXPECT_EQ(json["recipes"][1]["difference"], nullptr);
}

}  // namespace
}  // namespace ng::e2e
