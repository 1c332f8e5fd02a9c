// A search as cells and sentences.
#include <fmt/ranges.h>

#include <algorithm>

#include "base/units.h"
#include "search/search_report.h"

namespace ng::search {
namespace {

using Names = std::vector<std::string>;

std::string joined(const Names& names) { return fmt::format("{}", fmt::join(names, ", ")); }

std::string numbers_word(const Rules& rules) {
  return rules.by == &CompareRow::own ? "own numbers" : "BF16";
}

/// "4.5", "4.5 x 4.03"
std::string bits_text(const GemmBits& bits) {
  return bits.left == bits.right ? fmt::format("{:.3g}", bits.left)
                                 : fmt::format("{:.3g} x {:.3g}", bits.left, bits.right);
}

/// The keys of the grid; candidates by name have none.
Names keys_of(const SearchReport& report) {
  Names keys;
  for (const ReportedRecipe& one : report.candidates)
    if (keys.empty())
      for (const auto& [key, value] : one.changes) keys.push_back(key);
  return keys;
}

Names recipe_row(const ReportedRecipe& one, size_t keys) {
  Names row = {one.label};
  for (const auto& [key, value] : one.changes) row.push_back(value);
  row.resize(1 + keys);
  for (const GemmBits& bits : one.bits) row.push_back(bits_text(bits));
  return row;
}

Names score_row(const std::string& label, const GradientScore& score, double beta1) {
  return {label, fmt::format("{:.4f}", score.bias), fmt::format("{:.4f}", score.noise),
          fmt::format("{:.4f}", score.moment_error(beta1)), fmt::format("{:+.4f}", score.loss)};
}

/// The last rung that a candidate ran in; none where it ran in none.
const RungOutcome* last_rung_of(const SearchReport& report, const std::string& label) {
  for (size_t r = report.rungs.size(); r-- > 0;)
    if (std::ranges::any_of(report.rungs[r].to_base.rows,
                            [&](const CompareRow& row) { return row.of.label == label; }))
      return &report.rungs[r];
  return nullptr;
}

std::string fate_text(const Fate& fate, const SearchReport& report, const std::string& label) {
  if (!fate.is_in) return fate.why;
  if (report.rungs.empty()) return "";
  return report.is_complete() && label == report.best() ? "the best" : "goes on";
}

bool is_resolved(const ComparedLoss& loss) {
  return loss.verdict == "better" || loss.verdict == "worse" || loss.verdict == "equal";
}

/// "bf16 is better than nvfp4-all", by a verdict that is resolved.
std::string verdict_text(const std::string& label, const ComparedLoss& loss,
                         const std::string& base) {
  return fmt::format("{} is {} {} {}", label, loss.verdict, loss.verdict == "equal" ? "to" : "than",
                     base);
}

std::string diverged_text(const CompareRow& row) {
  return fmt::format("Of {}, {} of {} diverged in the last rung.", row.of.label, row.diverged,
                     counted(std::ssize(row.seeds), "run"));
}

/// How far a candidate is from the base, and whether that is decided.
void decide_about_base(const SearchReport& report, Decisions& decisions) {
  const RungOutcome& last = report.rungs.back();
  const std::string best = report.best();
  const ComparedLoss& loss = row_of(last.to_base, best).*report.rules.by;
  const std::string figures =
      fmt::format("{} nats in {}, {} of {}", gap_text(loss), numbers_word(report.rules),
                  counted(last.rung.seeds, "seed"), counted(last.rung.steps, "step"));
  if (is_resolved(loss))
    decisions.decided.push_back(fmt::format("{} ({}; p = {:.2g} after Holm's correction).",
                                            verdict_text(best, loss, report.base.label), figures,
                                            loss.p_holm));
  else
    decisions.open.push_back(fmt::format("Whether {} is better than {} ({}: {}).", best,
                                         report.base.label, figures, loss.verdict));
}

/// What the best candidate does to the way from the base to bf16, of which something is known.
void tell_share(const SearchReport& report, const ComparedLoss& gap, Decisions& decisions) {
  const std::string best = report.best(), base = report.base.label;
  const ComparedLoss& loss = row_of(report.rungs.back().to_base, best).*report.rules.by;
  const double share = 100 * loss.difference.mean / gap.difference.mean;
  std::string text =
      fmt::format("bf16 is better than {} by {:.4f} nats", base, -gap.difference.mean);
  if (loss.verdict == "better")
    text += fmt::format("; {} takes {:.0f} % of that away", best, share);
  if (loss.verdict == "worse") text += fmt::format("; {} adds {:.0f} % to that", best, -share);
  decisions.decided.push_back(text + ".");
  if (!is_resolved(loss))
    decisions.open.push_back(
        fmt::format("How much of that {} takes away ({:.0f} %: {}).", best, share, loss.verdict));
}

/// How far the base is from bf16, where that is another.
void tell_gap(const SearchReport& report, Decisions& decisions) {
  const CompareTable& table = report.rungs.back().to_base;
  if (report.base.label == "bf16" ||
      std::ranges::none_of(table.rows, [](const auto& row) { return row.of.label == "bf16"; }))
    return;
  const CompareRow& bf16 = row_of(table, "bf16");
  const ComparedLoss& gap = bf16.*report.rules.by;
  if (bf16.diverged > 0)
    decisions.decided.push_back(diverged_text(bf16));
  else if (gap.verdict == "better")
    tell_share(report, gap, decisions);
  else if (is_resolved(gap))
    decisions.decided.push_back(
        fmt::format("{} ({}).", verdict_text("bf16", gap, report.base.label), gap_text(gap)));
  else
    decisions.open.push_back(fmt::format("How far {} is from bf16 ({}: {}).", report.base.label,
                                         gap_text(gap), gap.verdict));
}

/// By the last rung alone: the seeds of an earlier one chose its best.
void decide_by_last_rung(const SearchReport& report, Decisions& decisions) {
  if (!report.is_complete()) {
    decisions.open.push_back(fmt::format("Whether a candidate is better than {}: {} of {} done.",
                                         report.base.label, report.rungs.size(),
                                         counted(std::ssize(report.plan), "rung")));
    return;
  }
  if (report.best().empty()) {
    decisions.decided.emplace_back("All candidates of the last rung diverged.");
    return;
  }
  const CompareRow& base = row_of(report.rungs.back().to_base, report.base.label);
  if (base.diverged > 0) {  // nothing has a difference to it
    decisions.decided.push_back(fmt::format("{} {} did not.", diverged_text(base), report.best()));
    return;
  }
  decide_about_base(report, decisions);
  tell_gap(report, decisions);
}

void decide_about_dropped(const SearchReport& report, Decisions& decisions) {
  const std::vector<Fate> fates = fates_of(report);
  Names worse, lower, by_gradients;
  for (size_t i = 0; i < fates.size(); ++i) {
    if (fates[i].is_in) continue;
    Names& names = fates[i].is_decided ? worse : fates[i].rung > 0 ? lower : by_gradients;
    names.push_back(report.candidates[i].label);
  }
  if (!worse.empty())
    decisions.decided.push_back("Worse than the best of their rung: " + joined(worse) + ".");
  if (!lower.empty())
    decisions.open.push_back(
        "Whether these are worse than the best of their rung, where they were only ranked lower: " +
        joined(lower) + ".");
  if (!by_gradients.empty())
    decisions.open.push_back("What these would train to, which their gradients alone dropped: " +
                             joined(by_gradients) + ".");
}

}  // namespace

CompareCells candidate_cells(const SearchReport& report) {
  CompareCells cells;
  const Names keys = keys_of(report);
  cells.heading = {"recipe"};
  cells.heading.insert(cells.heading.end(), keys.begin(), keys.end());
  for (const char* gemm : {"fprop bits", "dgrad bits", "wgrad bits"})
    cells.heading.emplace_back(gemm);
  cells.rows.push_back(recipe_row(report.base, keys.size()));
  for (const ReportedRecipe& one : report.candidates)
    cells.rows.push_back(recipe_row(one, keys.size()));
  return cells;
}

CompareCells gradient_cells(const SearchReport& report) {
  CompareCells cells;
  cells.heading = {"recipe", "bias", "noise", "error of the moment", "loss moves"};
  if (!report.has_all_scores()) return cells;
  cells.rows.push_back(score_row(report.base.label, report.scores[0], report.beta1));
  for (const size_t i : report.order_by_gradients())
    cells.rows.push_back(score_row(report.candidates[i].label, report.scores[i + 1], report.beta1));
  return cells;
}

CompareCells fate_cells(const SearchReport& report) {
  CompareCells cells;
  cells.heading = {"recipe", "runs", "to " + report.base.label, "verdict", "dropped"};
  const std::vector<Fate> fates = fates_of(report);
  for (size_t i = 0; i < fates.size(); ++i) {
    const std::string& label = report.candidates[i].label;
    Names row = {label};
    if (const RungOutcome* last = last_rung_of(report, label)) {
      const CompareRow& found = row_of(last->to_base, label);
      const ComparedLoss& loss = found.*report.rules.by;
      row.push_back(fmt::format("{} of {}", last->rung.seeds, counted(last->rung.steps, "step")));
      row.push_back(found.diverged > 0 ? divergence_text(found) : gap_text(loss));
      row.push_back(loss.verdict);
    }
    row.resize(4);
    row.push_back(fate_text(fates[i], report, label));
    cells.rows.push_back(std::move(row));
  }
  return cells;
}

Decisions decisions_of(const SearchReport& report) {
  Decisions decisions;
  if (report.rungs.empty()) return decisions;
  decide_by_last_rung(report, decisions);
  decide_about_dropped(report, decisions);
  return decisions;
}

std::vector<std::string> search_sentences(const SearchReport& report) {
  std::vector<std::string> sentences;
  Names same, other;
  for (const ReportedRecipe& one : report.candidates)
    (one.bits == report.base.bits ? same : other).push_back(one.label);
  sentences.emplace_back(
      "Bits of a value with its scales, of the two operands of each GEMM: means over the linear "
      "layers of the blocks, in a recipe's first phase.");
  if (!other.empty())
    sentences.push_back(
        fmt::format("Other bits than those of {}: {}.", report.base.label, joined(other)));
  sentences.push_back(fmt::format(
      "Gradients are those of a model that bf16 has trained, {} draws of one batch, relative to "
      "FP32: bias stays in any mean, noise does not. The error of the moment is what is left of "
      "both in AdamW's first moment, sqrt(bias² + noise² (1 - beta1) / (1 + beta1)); loss moves by "
      "the forward pass alone, in nats. Candidates are ranked by the worse of their ranks in these "
      "two. That is a forecast: it decides nothing.",
      report.draws));
  sentences.push_back(fmt::format(
      "Rungs are ranked by the validation loss in {}. Each has seeds of its own, so that no luck "
      "of an earlier one counts again; ± is half of a 95 % interval over its pairs.",
      numbers_word(report.rules)));
  for (const std::string& combination : report.left_out)
    sentences.push_back("Left out: " + combination + ".");
  return sentences;
}

}  // namespace ng::search
