#include "compare/compare_table.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/student.h"

namespace ng {
namespace {

constexpr double kAlpha = 0.05;
using Losses = std::vector<std::vector<double>>;
/// One of the losses of a row, and of a block.
using LossOf = ComparedLoss CompareRow::*;

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

ComparedLoss loss_of(std::vector<double> by_seed) {
  ComparedLoss loss;
  loss.mean = mean_of(by_seed);
  double squares = 0;
  for (const double v : by_seed) squares += (v - loss.mean) * (v - loss.mean);
  const auto n = static_cast<double>(by_seed.size());
  if (by_seed.size() > 1) loss.sd = std::sqrt(squares / (n - 1));
  loss.by_seed = std::move(by_seed);
  return loss;
}

// A member of each result.
std::vector<double> values_of(std::span<const CompareResult> results, double CompareResult::*of) {
  std::vector<double> values;
  for (const CompareResult& result : results) values.push_back(result.*of);
  return values;
}

CompareRow row_of(std::span<const CompareResult> results) {
  CompareRow row;
  row.of = results.front().of;
  row.own = loss_of(values_of(results, &CompareResult::val_loss));
  row.bf16 = loss_of(values_of(results, &CompareResult::val_loss_bf16));
  row.bits_per_byte = mean_of(values_of(results, &CompareResult::bits_per_byte));
  row.tokens_per_second = mean_of(values_of(results, &CompareResult::tokens_per_second));
  for (const CompareResult& result : results) {
    row.seeds.push_back(result.seed);
    row.skipped += result.skipped;
    row.diverged += std::isfinite(result.val_loss) ? 0 : 1;
  }
  row.bytes_per_parameter = results.front().bytes_per_parameter;
  return row;
}

std::vector<CompareRow> rows_of(const std::vector<CompareResult>& results) {
  std::vector<CompareRow> rows;
  for (size_t begin = 0, end = 0; begin < results.size(); begin = end) {
    while (end < results.size() && results[end].of == results[begin].of) ++end;
    rows.push_back(row_of(std::span(results).subspan(begin, end - begin)));
  }
  return rows;
}

// Those that are no twins: by point of the grid, or all of a single recipe.
std::vector<CompareBlock> blocks_of(const std::vector<CompareRow>& rows) {
  std::set<std::string> labels;
  for (const CompareRow& row : rows) labels.insert(row.of.label);
  std::vector<CompareBlock> blocks;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].of.twin != TwinOf::none) continue;
    const bool continues =
        !blocks.empty() &&
        (labels.size() == 1 || rows[blocks.back().rows.front()].of.settings == rows[i].of.settings);
    if (!continues) blocks.emplace_back();
    blocks.back().rows.push_back(i);
  }
  return blocks;
}

// A column for each seed that one of the rows has.
Losses losses_of(const std::vector<CompareRow>& rows, const std::vector<size_t>& chosen,
                 LossOf of) {
  std::set<uint64_t> seeds;
  for (const size_t i : chosen) seeds.insert(rows[i].seeds.begin(), rows[i].seeds.end());
  Losses losses;
  for (const size_t i : chosen) {
    losses.emplace_back();
    for (const uint64_t seed : seeds) {
      const auto found = std::ranges::find(rows[i].seeds, seed);
      const auto place = static_cast<size_t>(found - rows[i].seeds.begin());
      losses.back().push_back(found == rows[i].seeds.end() ? kNotRun
                                                           : (rows[i].*of).by_seed[place]);
    }
  }
  return losses;
}

PairedScatter compare_block(std::vector<CompareRow>& rows, const std::vector<size_t>& block,
                            LossOf of) {
  const PairedTable table = paired_table(losses_of(rows, block, of));
  for (size_t i = 0; i < block.size(); ++i) (rows[block[i]].*of).difference = table.differences[i];
  return table.scatter;
}

std::string verdict_of(const ComparedLoss& loss, double equal) {
  const PairedDifference& d = loss.difference;
  if (std::isnan(d.mean)) return "";
  if (std::isnan(d.half)) return "one seed";
  if (std::fabs(d.mean) + d.half <= equal) return "equal";
  if (loss.p_holm < kAlpha) return d.mean > 0 ? "worse" : "better";
  return "not resolved";
}

// Over the differences of all blocks together; how many there are.
int64_t judge(CompareTable& table, LossOf of) {
  std::vector<size_t> compared;
  std::vector<double> p;
  for (const CompareBlock& block : table.blocks)
    for (size_t i = 1; i < block.rows.size(); ++i) {
      compared.push_back(block.rows[i]);
      p.push_back((table.rows[block.rows[i]].*of).difference.p);
    }
  const std::vector<double> corrected = holm(p);
  for (size_t i = 0; i < compared.size(); ++i) {
    ComparedLoss& loss = table.rows[compared[i]].*of;
    loss.p_holm = corrected[i];
    loss.verdict = verdict_of(loss, table.equal);
  }
  return std::ranges::count_if(p, [](double one) { return !std::isnan(one); });
}

double root_mean_square(const Losses& pair) {
  double squares = 0;
  int64_t count = 0;
  for (size_t s = 0; s < pair[0].size(); ++s) {
    if (pair[0][s] == kNotRun || pair[1][s] == kNotRun) continue;
    squares += (pair[1][s] - pair[0][s]) * (pair[1][s] - pair[0][s]);
    ++count;
  }
  return count > 0 ? std::sqrt(squares / static_cast<double>(count)) : CompareResult::kNan;
}

// Compares a twin with its own run, where that is there.
void add_floor(CompareTable& table, size_t twin) {
  CompareCase whose = table.rows[twin].of;
  whose.twin = TwinOf::none;
  const auto found =
      std::ranges::find_if(table.rows, [&](const CompareRow& row) { return row.of == whose; });
  if (found == table.rows.end()) return;
  const std::vector<size_t> pair = {static_cast<size_t>(found - table.rows.begin()), twin};
  const PairedDifference own = found->own.difference, bf16 = found->bf16.difference;
  (void)compare_block(table.rows, pair, &CompareRow::own);
  (void)compare_block(table.rows, pair, &CompareRow::bf16);
  found->own.difference = own;  // to its own first
  found->bf16.difference = bf16;
  table.rows[twin].against = found->of.label;
  table.floors.push_back(
      {.row = twin,
       .own = root_mean_square(losses_of(table.rows, pair, &CompareRow::own)),
       .bf16 = root_mean_square(losses_of(table.rows, pair, &CompareRow::bf16))});
}

}  // namespace

CompareTable compare_table(const std::vector<CompareResult>& results, double equal) {
  CompareTable table;
  table.equal = equal;
  table.rows = rows_of(results);
  for (const CompareResult& result : results)
    if (!result.machine.empty() &&
        std::ranges::find(table.machines, result.machine) == table.machines.end())
      table.machines.push_back(result.machine);
  table.blocks = blocks_of(table.rows);
  for (CompareBlock& block : table.blocks) {
    block.own = compare_block(table.rows, block.rows, &CompareRow::own);
    block.bf16 = compare_block(table.rows, block.rows, &CompareRow::bf16);
    const CompareRow& first = table.rows[block.rows.front()];
    for (size_t i = 1; i < block.rows.size(); ++i) {
      CompareRow& row = table.rows[block.rows[i]];
      row.against = row.of.label == first.of.label ? text_of(first.of.settings) : first.of.label;
    }
  }
  table.tests = judge(table, &CompareRow::own);
  (void)judge(table, &CompareRow::bf16);
  for (size_t i = 0; i < table.rows.size(); ++i)
    if (table.rows[i].of.twin != TwinOf::none) add_floor(table, i);
  return table;
}

}  // namespace ng
