// What a search is made of: its arguments, and what they say, read and found right.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/shared_flags.h"
#include "compare/compare.h"
#include "search/candidates.h"
#include "search/search_report.h"

namespace ng::cli {

struct SearchArgs {
  RunFlags run;
  std::string base;
  std::vector<std::string> grid, recipes;
  bool skips_invalid = false;
  int64_t keep = 0;   ///< 0: half of the candidates
  int64_t steps = 0;  ///< of the first rung; 0: as many as of the last
  int64_t seeds = 2, draws = 16;
  std::string by = "own";
  std::string hours, equal = "0.005";
  std::string out;
  bool json = false;

  [[nodiscard]] std::string folder() const;
  /// What starts the search again.
  [[nodiscard]] std::vector<std::string> words() const;
};

struct SearchSetup {
  SearchArgs args;
  RunConfig config;                ///< of the last rung's steps, with the first seed
  std::vector<RunConfig> configs;  ///< of each rung
  ModelConfig model;
  std::vector<search::Candidate> candidates;
  search::SearchReport report;  ///< without anything found

  /// The base, bf16 where that is another, and `recipes`, in a rung: 0 is the first.
  [[nodiscard]] std::vector<CompareRun> runs_of(size_t rung,
                                                const std::vector<std::string>& recipes) const;
  /// The run in bf16 whose gradients are taken.
  [[nodiscard]] std::vector<CompareRun> reference() const;
  /// OUT/rung-1 of the first.
  [[nodiscard]] std::string folder_of(size_t rung) const;
  [[nodiscard]] std::string reference_folder() const;
};

/// Throws Error for what is wrong with any of it: nothing is written or run.
[[nodiscard]] SearchSetup search_setup(const SearchArgs& args);

}  // namespace ng::cli
