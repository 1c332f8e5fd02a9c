#include "search/outcome.h"

#include <algorithm>

#include "base/error.h"

namespace ng::search {
namespace {

bool is_candidate(const std::string& label, const Rules& rules) {
  return label != rules.base && label != "bf16";
}

/// Results of the candidates alone, those of `first` before the others.
std::vector<CompareResult> candidates_from(const std::string& first,
                                           const std::vector<CompareResult>& results,
                                           const Rules& rules) {
  std::vector<CompareResult> chosen;
  for (const CompareResult& result : results)
    if (is_candidate(result.of.label, rules)) chosen.push_back(result);
  std::stable_partition(chosen.begin(), chosen.end(),
                        [&](const CompareResult& result) { return result.of.label == first; });
  return chosen;
}

}  // namespace

const CompareRow& row_of(const CompareTable& table, const std::string& label) {
  const auto row = std::ranges::find_if(
      table.rows, [&](const CompareRow& one) { return one.of.label == label; });
  NG_CHECK(row != table.rows.end(), label);
  return *row;
}

RungOutcome outcome_of(const Rung& rung, const std::vector<CompareResult>& results,
                       const Rules& rules, int64_t keep) {
  RungOutcome outcome{
      .rung = rung, .to_base = compare_table(results, rules.equal), .to_best = {}, .kept = {}};
  std::vector<std::string> labels;
  std::vector<double> losses;
  for (const CompareRow& row : outcome.to_base.rows) {
    if (!is_candidate(row.of.label, rules)) continue;
    labels.push_back(row.of.label);
    losses.push_back((row.*rules.by).mean);
  }
  for (const size_t i : kept_of(losses, keep)) outcome.kept.push_back(labels[i]);
  const std::string best = outcome.kept.empty() ? labels.front() : outcome.kept.front();
  outcome.to_best = compare_table(candidates_from(best, results, rules), rules.equal);
  return outcome;
}

}  // namespace ng::search
