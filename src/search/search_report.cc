#include "search/search_report.h"

#include <algorithm>

#include "base/units.h"

namespace ng::search {
namespace {

Fate fate_by_gradients(size_t rank, size_t candidates) {
  return {.rung = 0,
          .is_in = false,
          .is_decided = false,
          .why = fmt::format("gradients: rank {} of {}", rank + 1, candidates)};
}

Fate fate_in_rung(const RungOutcome& outcome, const std::string& label, int64_t number,
                  ComparedLoss CompareRow::*by) {
  const CompareRow& row = row_of(outcome.to_best, label);
  Fate fate{.rung = number, .is_in = false};
  if (row.diverged > 0) {
    fate.is_decided = true;
    fate.why = fmt::format("rung {}: {}", number, divergence_text(row));
    return fate;
  }
  const ComparedLoss& loss = row.*by;
  fate.is_decided = loss.verdict == "worse";
  fate.why = fmt::format("rung {}: {} to {}{}", number, gap_text(loss), row.against,
                         fate.is_decided ? "" : ", not decided");
  return fate;
}

}  // namespace

std::vector<size_t> SearchReport::order_by_gradients() const {
  return in_order(std::span(scores).subspan(1), beta1);
}

std::vector<Fate> fates_of(const SearchReport& report) {
  std::vector<Fate> fates(report.candidates.size());
  if (!report.has_all_scores()) return fates;
  const std::vector<size_t> order = report.order_by_gradients();
  for (auto rank = static_cast<size_t>(report.plan.front().candidates); rank < order.size(); ++rank)
    fates[order[rank]] = fate_by_gradients(rank, order.size());
  for (size_t r = 0; r < report.rungs.size(); ++r) {
    const RungOutcome& outcome = report.rungs[r];
    for (size_t i = 0; i < fates.size(); ++i) {
      const std::string& label = report.candidates[i].label;
      if (fates[i].is_in && std::ranges::find(outcome.kept, label) == outcome.kept.end())
        fates[i] = fate_in_rung(outcome, label, static_cast<int64_t>(r) + 1, report.rules.by);
    }
  }
  return fates;
}

}  // namespace ng::search
