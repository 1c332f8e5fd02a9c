#include "tools/format_trial.h"

#include <cmath>

#include "support/scratch_folder.h"

namespace ng {
namespace {

class FormatTrials : public ScratchFolder {
 protected:
  /// A file's tensor of these values.
  const io::SafetensorsEntry& tensor(const std::vector<float>& values) {
    make_folders(folder_);
    io::write_safetensors(in("x"),
                          {{"x", "F32", {static_cast<int64_t>(values.size())}, values.data()}});
    file_.emplace(in("x"));
    return file_->at("x");
  }
  FormatTrial trial_of(const std::vector<float>& values, const std::string& name) {
    return try_format(tensor(values), name, operand_of(name), Threads{2}, [](double) {});
  }

  std::optional<io::Safetensors> file_;
};

TEST_F(FormatTrials, FactsAreThoseOfTheFiniteValues) {
  double share = 0;
  const TensorFacts facts = facts_of(tensor({0, -0.0f, 3, -5, 0.5f, NAN, INFINITY}), Threads{2},
                                     [&](double done) { share = done; });
  EXPECT_EQ(share, 1);
  EXPECT_EQ(facts.values, 7U);
  EXPECT_EQ(facts.zeros, 2U);
  EXPECT_EQ(facts.nan, 1U);
  EXPECT_EQ(facts.inf, 1U);
  EXPECT_EQ(facts.min, -5);
  EXPECT_EQ(facts.max, 3);
  EXPECT_EQ(facts.amax(), 5);
  EXPECT_DOUBLE_EQ(facts.mean(), -1.5 / 5);
  EXPECT_DOUBLE_EQ(facts.rms(), std::sqrt(34.25 / 5));
  EXPECT_EQ(facts.binades.at(1), 1U);  // 3
  EXPECT_EQ(facts.binades.at(2), 1U);  // 5
  EXPECT_EQ(facts.binades.at(-1), 1U);
}

TEST_F(FormatTrials, TheBestScaleRuleCounts) {
  // Floor's scale of 1 saturates 6.1; the next one is worse for the small values beside it.
  std::vector<float> small(32, 0.5f);
  small[0] = 6.1f;
  const FormatTrial trial = trial_of(small, "mxfp4");
  EXPECT_EQ(trial.rule, "floor");
  EXPECT_EQ(trial.counts.saturated, 1U);
  std::vector<float> large(32, 7.9f);
  EXPECT_NE(trial_of(large, "mxfp4").rule, "floor");
  const FormatTrial exact = trial_of({1, 2, 4}, "bf16");
  EXPECT_TRUE(std::isinf(exact.errors.sqnr_db));
  EXPECT_EQ(exact.rule, "");
  EXPECT_EQ(exact.bits, 16);
}

TEST_F(FormatTrials, CheapestThatKeepsTheValues) {
  FormatTrial four, eight, lossy;
  four.bits = 4.25, four.errors.sqnr_db = 20;
  eight.bits = 8, eight.errors.sqnr_db = 35;
  lossy.bits = 3, lossy.errors.sqnr_db = 35, lossy.errors.underflow = 0.5;
  const std::vector<FormatTrial> trials = {eight, four, lossy};
  EXPECT_EQ(cheapest(trials, 20), &trials[1]);
  EXPECT_EQ(cheapest(trials, 30), &trials[0]);
  EXPECT_EQ(cheapest(trials, 40), nullptr);
  EXPECT_EQ(cheapest(trials, 20, false), &trials[2]);
}

TEST_F(FormatTrials, StatesOfBinades) {
  FormatTrial trial;  // E2M1: 0.5, then 1 ... 6
  trial.cast = operand_of("mxfp4");
  const auto states = [&] {
    std::string text;
    for (int e = 4; e >= -3; --e) text += binade_state(trial, e);
    return text;
  };
  EXPECT_EQ(states(), "^^NNNss0");
  trial.has_scale = true;
  trial.high_scale = 4;
  EXPECT_EQ(states(), "NNNnnss0");
  trial.has_scale = false;
  trial.has_nan_scale = true;
  EXPECT_EQ(states(), "????????");
}

}  // namespace
}  // namespace ng
