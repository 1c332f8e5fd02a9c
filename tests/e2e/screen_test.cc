// What commands say fits a screen, what they advise works, and a run's folder is its model.
#include <algorithm>

#include "base/files.h"
#include "base/json.h"
#include "io/safetensors.h"
#include "program.h"

namespace ng::e2e {
namespace {

using Screen = Program;

std::ptrdiff_t line_count(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

// Three groups of layers in three numbers and a second phase: as much as a recipe has to say.
constexpr const char* kRecipe = R"(inherit = "nvfp4"
phase = [{start = 0.5, linear = "bf16"}]
override = [
  {layers = ["blocks.*.attn.q"], linear = "mxfp4"},
  {layers = ["blocks.*.attn.k"], linear = "mxfp8_e4m3"},
  {layers = ["blocks.*.attn.v"], linear = "fp8_e4m3"},
  {layers = ["blocks.*.mlp.down"], linear = "int8"},
])";

TEST_F(Screen, WhatIsSaidBeforeStepOneFits) {
  write_text(path("much.toml"), kRecipe);
  const std::vector<std::string> args = {"train", "tiny.toml",     "--recipe", "much.toml",
                                         "--set", "train.steps=2", "--out",    "r"};
  const auto before_step_1 = [](const Result& result) {
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out.substr(0, result.out.find("\nstep 1/2"));
  };
  const Result short_run = run(args);
  const std::string text = before_step_1(short_run);
  EXPECT_LE(line_count(text) + line_count(short_run.err), 23) << text;
  EXPECT_NE(text.find(" more lines: --verbose\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nmemory      "), std::string::npos) << text;
  EXPECT_NE(text.find(" at the peak, "), std::string::npos) << text;
  EXPECT_NE(text.find("\n            at most weights "), std::string::npos) << text;

  std::vector<std::string> more = args;
  more.back() = "r2";
  more.emplace_back("--verbose");
  const std::string all = before_step_1(run(more));
  EXPECT_GT(line_count(all), 30) << all;
  EXPECT_EQ(all.find("--verbose"), std::string::npos) << all;
  for (const char* word : {"per parameter  at the peak", "- moment1, fp32", "  total", "int8"})
    EXPECT_NE(all.find(word), std::string::npos) << word << " in\n" << all;
}

TEST_F(Screen, TablesOfSeveralScreensAreLeftToThePage) {
  const std::vector<float> w = {0.01f, -0.03f, 0.02f, 0.05f};
  io::write_safetensors(path("f"), {{"w", "F32", {2, 2}, w.data()}});
  const std::string brief =
      run_well({"study", "update", "--file", "f", "--tensor", "w", "--out", "s", "--threads", "1"});
  EXPECT_LT(line_count(brief), 60) << brief;
  EXPECT_NE(brief.find("\nOne step along the weights themselves"), std::string::npos);
  EXPECT_NE(brief.find("lines are left to the page: --tables prints them\n"), std::string::npos);
  EXPECT_NE(brief.find("s/index.html\n"), std::string::npos);
  std::istringstream lines(brief);
  for (std::string line; std::getline(lines, line);)
    EXPECT_LE(std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }),
              100)
        << line;
}

TEST_F(Screen, RecipesAdviseACommandThatWorks) {
  write_text(path("my idea.toml"), "inherit = \"bf16\"\n");
  const std::string text = run_well({"recipes", "my idea.toml", "--model", "char-gpt", "--batch",
                                     "1", "--seq", "16", "--threads", "1"});
  EXPECT_NE(text.find("narrowgauge bench step --model char-gpt --recipe 'my idea.toml' --batch 1 "
                      "--seq 16\n"),
            std::string::npos)
      << text;
  const std::string of_phases = run_well({"recipes", "nvfp4-late-bf16", "--model", "char-gpt",
                                          "--batch", "1", "--seq", "16", "--threads", "1"});
  for (const char* phase : {"--seq 16 --phase 0\n", "--seq 16 --phase 1\n"})
    EXPECT_NE(of_phases.find(phase), std::string::npos) << of_phases;
  (void)run_well({"bench", "step", "--model", "char-gpt", "--recipe", "my idea.toml", "--batch",
                  "1", "--seq", "16", "--steps", "1", "--threads", "1"});
}

TEST_F(Screen, RecipesAreListedAsThePageHasThem) {
  const std::string page = read_file(NG_SOURCE_DIR "/docs/recipes.md", 1 << 20);
  EXPECT_NE(page.find(run_well({"recipes", "--markdown"})), std::string::npos)
      << "./narrowgauge recipes --markdown, in docs/recipes.md";
  const std::string text = run_well({"recipes", "tetrajet"});
  for (const char* words : {"# Source: TetraJet, ", "# Claim: ", "# Deviates: without Q-EMA"})
    EXPECT_NE(text.find(words), std::string::npos) << text;
  EXPECT_NE(Json::parse(run_well({"recipes", "tetrajet", "--json"}))["claim"], "");
}

TEST_F(Screen, ARunStandsForItsModel) {
  (void)run_well({"train", "tiny.toml", "--set", "train.steps=2", "--out", "r"});
  const std::vector<std::string> of_run = {"eval", "r", "--data", "tiny.txt", "--json"};
  std::vector<std::string> of_model = of_run;
  of_model[1] = "r/model";
  EXPECT_EQ(run_well(of_run), run_well(of_model));
  EXPECT_EQ(run_well({"generate", "r", "--prompt", "a", "--tokens", "4"}),
            run_well({"generate", "r/model", "--prompt", "a", "--tokens", "4"}));
  (void)run_well({"export", "r", "a.gguf", "--to", "gguf", "--type", "f32"});
  EXPECT_EQ(run({"export", "r", "t.gguf", "--to", "gguf", "--type", "bf16", "--weights", "trained",
                 "--recipe", "bf16"})
                .code,
            0);
  (void)run_well({"import", "r", "plain"});
  EXPECT_TRUE(fs::exists(path("plain/config.json")));
  (void)run_well({"plan", "r", "--ranks", "2"});

  fs::remove_all(path("r/model"));
  expect_refused(
      {"eval", "r", "--data", "tiny.txt"}, 1,
      {"r: a run that has no model/ yet: it is written where the run ends, and its "
       "checkpoints, of step 2 at last, are no models: train RUN.toml --out r --resume"});
  fs::remove_all(path("r/checkpoints"));
  expect_refused({"generate", "r", "--prompt", "a"}, 1, {"r: a run that has no model/ yet"});
}

}  // namespace
}  // namespace ng::e2e
