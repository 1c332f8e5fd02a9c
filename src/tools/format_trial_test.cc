#include "tools/format_trial.h"

#include <algorithm>
#include <cmath>
#include <set>

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
  RuleTrials trials_of(const std::vector<float>& values, const std::string& name) {
    return try_format(tensor(values), {.name = name, .cast = operand_of(name)}, Threads{2},
                      [](double) {});
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

TEST_F(FormatTrials, TheRuleOfCastsComesFirstThenAllOthers) {
  // Floor's scale of 1 saturates 6.1; the next one is worse for the small values beside it.
  std::vector<float> small(32, 0.5f);
  small[0] = 6.1f;
  const RuleTrials trials = trials_of(small, "mxfp4");
  ASSERT_EQ(trials.size(), scale_rules(ScaleKind::e8m0).size());
  EXPECT_EQ(trials.front().rule, "floor");
  EXPECT_EQ(trials.front().counts.saturated, 1U);
  std::set<std::string> rules;
  for (const FormatTrial& trial : trials) rules.insert(trial.rule);
  EXPECT_EQ(rules.size(), trials.size()) << "each once";
  const RuleTrials large = trials_of(std::vector<float>(32, 7.9f), "mxfp4");
  EXPECT_EQ(large.front().rule, "floor") << "though it is not the best";
  EXPECT_TRUE(std::ranges::any_of(large, [&](const FormatTrial& trial) {
    return trial.errors.sqnr_db > large.front().errors.sqnr_db;
  }));
  const RuleTrials exact = trials_of({1, 2, 4}, "bf16");
  ASSERT_EQ(exact.size(), 1U);
  EXPECT_TRUE(std::isinf(exact.front().errors.sqnr_db));
  EXPECT_EQ(exact.front().rule, "");
  EXPECT_EQ(exact.front().bits, 16);
}

TEST_F(FormatTrials, APrescaleIsUndoneAsProductsUndoIt) {
  Operand cast = operand_of("mxfp4");
  cast.prescale = 0.75f;
  const RuleTrials trials =
      try_format(tensor(std::vector<float>(32, 4.0f)),
                 {.name = "mxfp4", .cast = cast, .all_rules = false}, Threads{1}, [](double) {});
  ASSERT_EQ(trials.size(), 1U);
  EXPECT_TRUE(std::isinf(trials.front().errors.sqnr_db)) << "3 / 0.75";
}

TEST_F(FormatTrials, WhatReachesTheLargestValueDoesNotSaturate) {
  for (const float value : {1.0f, 2.0f, 0.5f}) {
    const FormatTrial trial = trials_of(std::vector<float>(96, value), "int8").front();
    EXPECT_EQ(trial.errors.saturation, 0);
    EXPECT_EQ(binade_state(trial, std::ilogb(value)), 'N') << value;
  }
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
