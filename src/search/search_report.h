// What a search has found so far: tables and sentences for screen, page and files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "compare/compare_table.h"
#include "search/candidates.h"
#include "search/gradient_score.h"
#include "search/operand_bits.h"
#include "search/outcome.h"
#include "search/rungs.h"

namespace ng::search {

/// A recipe with what is known of it.
struct ReportedRecipe {
  std::string label;
  std::string recipe;  ///< a name or a file
  std::string hash;
  GridSettings changes;
  OperandBits bits{};
};

struct SearchReport {
  std::string run;  ///< the run file
  Rules rules;
  double beta1 = 0;   ///< of the run: for GradientScore::moment_error
  int64_t draws = 0;  ///< of each gradient
  ReportedRecipe base;
  std::vector<ReportedRecipe> candidates;
  std::vector<std::string> left_out;  ///< Candidates'
  std::vector<Rung> plan;
  std::vector<GradientScore> scores = {};  ///< the base's, then the candidates', as far as taken
  std::vector<RungOutcome> rungs = {};     ///< those that are finished

  [[nodiscard]] bool has_all_scores() const { return scores.size() == candidates.size() + 1; }
  /// The candidates' places by their gradients, the best first. All scores are there.
  [[nodiscard]] std::vector<size_t> order_by_gradients() const;
  /// The best candidate of the last finished rung; empty where there is none, or all diverged.
  [[nodiscard]] std::string best() const {
    return rungs.empty() || rungs.back().kept.empty() ? "" : rungs.back().kept.front();
  }
  /// No rung is left to be run.
  [[nodiscard]] bool is_complete() const {
    return rungs.size() == plan.size() || (!rungs.empty() && rungs.back().kept.empty());
  }
};

/// Where a candidate went.
struct Fate {
  int64_t rung = 0;         ///< in which it was dropped, from 1 on; 0: by its gradients
  bool is_in = true;        ///< nothing has dropped it
  bool is_decided = false;  ///< it is worse, and not only ranked lower
  std::string why = {};
};
/// Of each candidate.
[[nodiscard]] std::vector<Fate> fates_of(const SearchReport& report);

[[nodiscard]] CompareCells candidate_cells(const SearchReport& report);
[[nodiscard]] CompareCells gradient_cells(const SearchReport& report);
[[nodiscard]] CompareCells fate_cells(const SearchReport& report);

/// "c5 is better than nvfp4-all by ...", by intervals; and what no interval says.
struct Decisions {
  std::vector<std::string> decided, open;
};
[[nodiscard]] Decisions decisions_of(const SearchReport& report);

/// What the gradients' figures are, what recipes take the same bits as the base, what was left out.
[[nodiscard]] std::vector<std::string> search_sentences(const SearchReport& report);

[[nodiscard]] std::string search_csv(const SearchReport& report);
[[nodiscard]] Json search_json(const SearchReport& report);

}  // namespace ng::search
