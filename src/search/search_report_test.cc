// Fates, decisions and files of a search, from made-up results.
#include "search/search_report.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/json.h"

namespace ng::search {
namespace {

constexpr double kNan = CompareResult::kNan;

/// Of seeds 1, 2, ...; both losses are the same.
void add(std::vector<CompareResult>& results, const std::string& label,
         const std::vector<double>& losses) {
  for (size_t s = 0; s < losses.size(); ++s) {
    CompareResult one;
    one.of.label = label;
    one.seed = s + 1;
    one.val_loss = one.val_loss_bf16 = losses[s];
    results.push_back(one);
  }
}

SearchReport report_of_four() {
  SearchReport report;
  report.run = "run.toml";
  report.rules = {.base = "nvfp4-all", .by = &CompareRow::own, .equal = 0.001};
  report.beta1 = 0.9;
  report.draws = 16;
  report.base.label = "nvfp4-all";
  for (const char* label : {"c1", "c2", "c3", "c4"})
    report.candidates.push_back({.label = label,
                                 .recipe = "",
                                 .hash = label,
                                 .changes = {{"recipe.linear.fprop.hadamard", label}},
                                 .bits = {}});
  report.plan = rungs_of({.candidates = 3, .first_steps = 8, .steps = 8, .seeds = 3});
  report.scores = {{.bias = 0.5}, {.bias = 0.4}, {.bias = 0.9}, {.bias = 0.3}, {.bias = 0.2}};
  return report;
}

/// A rung in which c4 is best, c1 a little and c3 much worse.
RungOutcome first_rung(const SearchReport& report) {
  std::vector<CompareResult> results;
  add(results, "nvfp4-all", {1.600, 1.651, 1.699});
  add(results, "bf16", {1.500, 1.550, 1.601});
  add(results, "c4", {1.550, 1.600, 1.650});
  add(results, "c3", {1.800, 1.852, 1.899});
  add(results, "c1", {1.551, 1.600, 1.651});
  return outcome_of(report.plan[0], results, report.rules, report.plan[1].candidates);
}

TEST(Fates, WithoutScoresAreOpen) {
  SearchReport report = report_of_four();
  report.scores.resize(2);
  for (const Fate& fate : fates_of(report)) EXPECT_TRUE(fate.is_in);
  EXPECT_TRUE(decisions_of(report).open.empty());
}

TEST(Fates, GradientsDropByRankAlone) {
  const std::vector<Fate> fates = fates_of(report_of_four());
  EXPECT_TRUE(fates[0].is_in && fates[2].is_in && fates[3].is_in);
  EXPECT_FALSE(fates[1].is_in);
  EXPECT_FALSE(fates[1].is_decided);
  EXPECT_EQ(fates[1].why, "gradients: rank 4 of 4");
}

TEST(Fates, ARungDropsWhatIsWorseThanItsBest) {
  SearchReport report = report_of_four();
  report.rungs.push_back(first_rung(report));
  EXPECT_EQ(report.rungs[0].kept, (std::vector<std::string>{"c4", "c1"}));
  const Fate c3 = fates_of(report)[2];
  EXPECT_EQ(c3.rung, 1);
  EXPECT_TRUE(c3.is_decided);
  EXPECT_EQ(c3.why.rfind("rung 1: +0.25", 0), 0u) << c3.why;
  EXPECT_NE(c3.why.find(" to c4"), std::string::npos) << c3.why;
  EXPECT_FALSE(report.is_complete());
}

TEST(Fates, WhatIsRankedLowerWithoutBeingWorseIsNotDecided) {
  SearchReport report = report_of_four();
  report.rungs.push_back(first_rung(report));
  std::vector<CompareResult> results;
  add(results, "nvfp4-all", {1.60, 1.65});
  add(results, "bf16", {1.50, 1.55});
  add(results, "c4", {1.55, 1.58});
  add(results, "c1", {1.54, 1.60});
  report.rungs.push_back(outcome_of(report.plan[1], results, report.rules, 1));
  EXPECT_TRUE(report.is_complete());
  EXPECT_EQ(report.best(), "c4");
  const Fate c1 = fates_of(report)[0];
  EXPECT_FALSE(c1.is_decided);
  EXPECT_NE(c1.why.find("not decided"), std::string::npos) << c1.why;
  const Decisions decisions = decisions_of(report);
  EXPECT_EQ(decisions.decided.back(), "Worse than the best of their rung: c3.");
  EXPECT_NE(decisions.open.back().find("gradients alone dropped: c2."), std::string::npos);
}

using Losses = std::vector<double>;

/// What is said after a last rung, in which c4 is the best.
Decisions decisions_after(const Losses& base, const Losses& bf16, const Losses& c4) {
  SearchReport report = report_of_four();
  report.rungs.push_back(first_rung(report));
  std::vector<CompareResult> results;
  add(results, "nvfp4-all", base);
  add(results, "bf16", bf16);
  add(results, "c4", c4);
  add(results, "c1", {1.900, 1.951, 1.999});
  report.rungs.push_back(outcome_of(report.plan[1], results, report.rules, 1));
  EXPECT_EQ(report.best(), "c4");
  return decisions_of(report);
}

bool has(const std::vector<std::string>& sentences, const std::string& text) {
  return std::ranges::any_of(sentences, [&](const std::string& sentence) {
    return sentence.find(text) != std::string::npos;
  });
}

const Losses kBase = {1.600, 1.651, 1.699}, kBf16 = {1.500, 1.550, 1.601};

TEST(Decisions, SayByHowMuchTheBaseIsBeaten) {
  const Decisions said = decisions_after(kBase, kBf16, {1.550, 1.600, 1.650});
  ASSERT_EQ(said.decided.size(), 3u);
  EXPECT_EQ(said.decided[0].rfind("c4 is better than nvfp4-all (-0.0500 ± ", 0), 0u)
      << said.decided[0];
  EXPECT_TRUE(has(said.decided, "by 0.0997 nats; c4 takes 50 % of that away."));
}

TEST(Decisions, OfTheBaseAreNoneBeforeTheLastRung) {
  SearchReport report = report_of_four();
  report.rungs.push_back(first_rung(report));
  const Decisions said = decisions_of(report);
  EXPECT_EQ(said.decided, (std::vector<std::string>{"Worse than the best of their rung: c3."}));
  EXPECT_EQ(said.open.at(0), "Whether a candidate is better than nvfp4-all: 1 of 2 rungs done.");
}

TEST(Decisions, SayWhatTheBestDoesToTheGapByItsVerdict) {
  const Decisions worse = decisions_after(kBase, kBf16, {1.650, 1.701, 1.749});
  EXPECT_TRUE(has(worse.decided, "by 0.0997 nats; c4 adds 50 % to that."));
  const Decisions unknown = decisions_after(kBase, kBf16, {1.500, 1.700, 1.650});
  EXPECT_TRUE(has(unknown.decided, "bf16 is better than nvfp4-all by 0.0997 nats."));
  EXPECT_TRUE(has(unknown.open, "How much of that c4 takes away (33 %: not resolved)."));
  const Losses without_scatter = {1.500, 1.551, 1.599};
  const Decisions equal = decisions_after(kBase, without_scatter, kBase);
  EXPECT_TRUE(has(equal.decided, "c4 is equal to nvfp4-all"));
  EXPECT_FALSE(has(equal.open, "How much of that"));
}

TEST(Decisions, SayThatBaseOrBf16Diverged) {
  const Decisions base = decisions_after({1.6, kNan, 1.7}, kBf16, {1.550, 1.600, 1.650});
  EXPECT_EQ(base.decided.at(0), "Of nvfp4-all, 1 of 3 runs diverged in the last rung. c4 did not.");
  EXPECT_FALSE(has(base.open, "()")) << "no figures where nothing is compared";
  const Decisions bf16 = decisions_after(kBase, {1.5, kNan, 1.6}, {1.550, 1.600, 1.650});
  EXPECT_TRUE(has(bf16.decided, "Of bf16, 1 of 3 runs diverged in the last rung."));
}

TEST(Outcome, WhatDivergedIsDroppedForThat) {
  SearchReport report = report_of_four();
  std::vector<CompareResult> results;
  add(results, "nvfp4-all", {1.6, 1.7, 1.8});
  add(results, "c4", {1.5, kNan, 1.7});
  add(results, "c3", {kNan, kNan, kNan});
  add(results, "c1", {1.9, 2.0, 2.1});
  report.rungs.push_back(outcome_of(report.plan[0], results, report.rules, 2));
  EXPECT_EQ(report.rungs[0].kept, (std::vector<std::string>{"c1"}));
  const std::vector<Fate> fates = fates_of(report);
  EXPECT_EQ(fates[3].why, "rung 1: 1 of 3 diverged");
  EXPECT_EQ(fates[2].why, "rung 1: diverged");
  EXPECT_TRUE(fates[2].is_decided);
}

TEST(Outcome, OfNothingButDivergedEndsTheSearch) {
  SearchReport report = report_of_four();
  std::vector<CompareResult> results;
  add(results, "nvfp4-all", {1.6, 1.7, 1.8});
  for (const char* label : {"c4", "c3", "c1"}) add(results, label, {kNan, kNan, kNan});
  report.rungs.push_back(outcome_of(report.plan[0], results, report.rules, 2));
  EXPECT_TRUE(report.is_complete());
  EXPECT_EQ(decisions_of(report).decided[0], "All candidates of the last rung diverged.");
}

TEST(SearchCells, HaveAColumnOfEachKeyAndRowsInOrder) {
  SearchReport report = report_of_four();
  EXPECT_EQ(candidate_cells(report).heading[1], "recipe.linear.fprop.hadamard");
  const CompareCells gradients = gradient_cells(report);
  EXPECT_EQ(gradients.rows[0][0], "nvfp4-all");
  EXPECT_EQ(gradients.rows[1][0], "c4") << "the least error of the moment";
  report.rungs.push_back(first_rung(report));
  const CompareCells fates = fate_cells(report);
  EXPECT_EQ(fates.rows[0].back(), "goes on");
  EXPECT_EQ(fates.rows[2][3], "worse");
}

TEST(SearchFiles, HoldEveryCandidate) {
  SearchReport report = report_of_four();
  report.rungs.push_back(first_rung(report));
  const Json json = search_json(report);
  EXPECT_EQ(json["candidates"].size(), 4u);
  EXPECT_EQ(json["candidates"][1]["dropped"]["decided"], false);
  EXPECT_EQ(json["candidates"][3]["dropped"], nullptr);
  EXPECT_EQ(json["rungs"][0]["kept"], Json::array({"c4", "c1"}));
  const std::string csv = search_csv(report);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 5) << csv;
  const auto fields = [](const std::string& line) {
    return std::count(line.begin(), line.end(), ',');
  };
  EXPECT_EQ(fields(csv.substr(0, csv.find('\n'))), 25) << csv;
  EXPECT_NE(csv.find(",worse,rung 1: +"), std::string::npos) << csv;
}

}  // namespace
}  // namespace ng::search
