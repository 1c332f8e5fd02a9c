// A reader opens the reports in a real browser, offline: everything is drawn, the mouse works, the
// page prints. The pictures stay in browser-test/ of the build folder for people to look at.
#include <set>

#include "../e2e/program.h"
#include "base/json.h"
#include "base/program.h"

namespace ng::e2e {
namespace {

class Browser : public Program {
 protected:
  /// What open_page.py saw; null where there is no browser or no Python.
  [[nodiscard]] static Json visit(const fs::path& page, const std::string& name) {
    const fs::path pictures = fs::current_path() / "browser-test";
    fs::create_directories(pictures);
    const ProgramResult seen =
        run_program({"python3", std::string(NG_SOURCE_DIR) + "/tests/browser/open_page.py",
                     page.string(), (pictures / name).string()},
                    1 << 20);
    if (!seen.found || seen.exit_code == 77) return nullptr;
    EXPECT_EQ(seen.exit_code, 0) << seen.output;
    return Json::parse(seen.output, nullptr, false);
  }

  /// The same of any page with charts.
  static void expect_works(const Json& seen, int charts) {
    ASSERT_TRUE(seen.is_object());
    EXPECT_EQ(seen["errors"], Json::array());
    const int drawn = charts - seen["charts"]["empty"].get<int>();
    EXPECT_EQ(seen["charts"]["all"], drawn);
    EXPECT_EQ(seen["charts"]["drawn"], drawn);
    EXPECT_EQ(seen["overflow"], 0) << "nothing sticks out to the right";
    EXPECT_EQ(seen["overflow when narrow"], 0);
    ASSERT_EQ(seen["requests"].size(), 1u) << seen["requests"];
    EXPECT_TRUE(seen["requests"][0].get<std::string>().starts_with("file://"));
    ASSERT_EQ(seen["tooltip"].size(), 1u);
    EXPECT_NE(seen["tooltip"][0].get<std::string>().find("step "), std::string::npos);
    const Json &labels = seen["labels"], &zoomed = seen["zoomed labels"];
    ASSERT_EQ(labels.size(), size_t(drawn));
    for (size_t i = 0; i < labels.size(); ++i) EXPECT_NE(labels[i], zoomed[i]) << "zooms with all";
    EXPECT_EQ(seen["reset labels"], labels);
    for (const Json& texts : seen["y labels"]) {
      std::set<std::string> said;
      for (const Json& text : texts)  // most ticks of a logarithmic axis say nothing
        EXPECT_TRUE(text == "" || said.insert(text).second) << "twice on an axis: " << texts;
    }
  }
};

TEST_F(Browser, ShowsTheReportOfARun) {
  (void)run_well({"train", "tiny.toml", "--out", "run", "--set", "train.steps=150"});
  const Json seen = visit(path("run/report.html"), "train");
  if (seen.is_null()) GTEST_SKIP() << "needs chromium and python3";
  expect_works(seen, 4 + 12 + 4);
  EXPECT_EQ(seen["charts"]["empty"], 4) << "what a prescale keeps from saturating";
  EXPECT_EQ(seen["title"], "Training run tiny");
  for (const char* word : {"validation", "SQNR, dB", "gemm fprop", "moments", "Learning rate",
                           "hadamard", "150 of 150 steps"})
    EXPECT_NE(seen["text"].get<std::string>().find(word), std::string::npos) << word;
}

TEST_F(Browser, ShowsWhatNoiseLearned) {
  (void)run_well(
      {"train", "tiny.toml", "--out", "run", "--recipe", "gaussws-all", "--set", "train.steps=60"});
  const Json seen = visit(path("run/report.html"), "noise");
  if (seen.is_null()) GTEST_SKIP() << "needs chromium and python3";
  expect_works(seen, 4 + 4 + 7);
  EXPECT_EQ(seen["figures"]["ranges"], Json({14})) << "all layers of two blocks";
  ASSERT_EQ(seen["figures"]["maps"].size(), 7u) << "of the block that is chosen";
  for (const Json& colors : seen["figures"]["maps"]) EXPECT_GT(colors, 1);
  for (const char* word : {"weights with noise", "blocks.0.mlp.gate", "4 x 2 blocks"})
    EXPECT_NE(seen["text"].get<std::string>().find(word), std::string::npos) << word;
}

TEST_F(Browser, ShowsAnInspection) {
  (void)run_well({"train", "tiny.toml", "--out", "run", "--set", "train.steps=3"});
  (void)run_well({"inspect", "run", "--recipe", "mxfp4-sr-rht", "--out", "page.html"});
  const Json seen = visit(path("page.html"), "inspect");
  if (seen.is_null()) GTEST_SKIP() << "needs chromium and python3";
  EXPECT_EQ(seen["errors"], Json::array());
  EXPECT_EQ(seen["overflow"], 0);
  EXPECT_EQ(seen["overflow when narrow"], 0);
  EXPECT_EQ(seen["requests"].size(), 1u);
  const std::string text = seen["text"];
  for (const char* word :
       {"llama: 2 layers", "scale rule", "fprop.weight", "normal in every block", "Error by layer"})
    EXPECT_NE(text.find(word), std::string::npos) << word;
  EXPECT_EQ(text.find("drag to zoom"), std::string::npos) << "there is nothing to drag";
}

TEST_F(Browser, ShowsTheReportOfAComparison) {
  (void)run_well({"compare", "tiny.toml", "--recipes", "bf16,fp8-current,mxfp4-all", "--seeds", "2",
                  "--out", "out", "--set", "train.steps=60"});
  const Json seen = visit(path("out/report.html"), "compare");
  if (seen.is_null()) GTEST_SKIP() << "needs chromium and python3";
  expect_works(seen, 6 + 18);
  for (const char* word : {"bf16", "fp8-current", "mxfp4-all", "±", "8 of 8 runs"})
    EXPECT_NE(seen["text"].get<std::string>().find(word), std::string::npos) << word;
}

}  // namespace
}  // namespace ng::e2e
