// What a rung decides: who stays, and whether those who go are worse or only ranked lower.
#pragma once

#include <string>
#include <vector>

#include "compare/compare_table.h"
#include "search/rungs.h"

namespace ng::search {

/// By what candidates are judged, the same in all rungs.
struct Rules {
  std::string base;                                 ///< label of what all are compared with
  ComparedLoss CompareRow::*by = &CompareRow::own;  ///< the loss that ranks
  double equal = 0;                                 ///< nats, CompareTable's
};

struct RungOutcome {
  Rung rung;
  CompareTable to_base;           ///< base, bf16 and the candidates
  CompareTable to_best;           ///< the candidates alone, the best first
  std::vector<std::string> kept;  ///< the best first
};

/// `results` of a finished rung, those of the base first. `keep` candidates stay at most.
[[nodiscard]] RungOutcome outcome_of(const Rung& rung, const std::vector<CompareResult>& results,
                                     const Rules& rules, int64_t keep);

/// The row of a label, which has one.
[[nodiscard]] const CompareRow& row_of(const CompareTable& table, const std::string& label);

}  // namespace ng::search
