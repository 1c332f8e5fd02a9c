#include "compare/paired.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/student.h"

namespace ng {
namespace {

constexpr double kConfidence = 0.95;
constexpr double kUnlike = 0.05;  // of Cochran's test

double mean_over(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Rows without a seed that diverged, of the columns that all of them have; the numbers of the rows.
struct Complete {
  std::vector<std::vector<double>> rows;
  std::vector<size_t> of;
};

Complete complete_part(std::span<const std::vector<double>> losses) {
  Complete complete;
  std::vector<bool> everywhere(losses.front().size(), true);
  for (size_t r = 0; r < losses.size(); ++r) {
    if (std::ranges::any_of(losses[r], [](double v) { return std::isnan(v); })) continue;
    complete.of.push_back(r);
    for (size_t s = 0; s < losses[r].size(); ++s)
      if (losses[r][s] == kNotRun) everywhere[s] = false;
  }
  for (const size_t r : complete.of) {
    complete.rows.emplace_back();
    for (size_t s = 0; s < everywhere.size(); ++s)
      if (everywhere[s]) complete.rows.back().push_back(losses[r][s]);
  }
  return complete;
}

// Of each row, the sum of squares of what its mean, the seeds' and that of all leave.
std::vector<double> residual_squares(const std::vector<std::vector<double>>& rows) {
  const size_t seeds = rows.front().size();
  std::vector<double> by_seed(seeds), sums;
  for (const auto& row : rows)
    for (size_t s = 0; s < seeds; ++s) by_seed[s] += row[s] / static_cast<double>(rows.size());
  const double all = mean_over(by_seed);
  for (const auto& row : rows) {
    const double own = mean_over(row);
    double sum = 0;
    for (size_t s = 0; s < seeds; ++s) {
      const double rest = row[s] - own - by_seed[s] + all;
      sum += rest * rest;
    }
    sums.push_back(sum);
  }
  return sums;
}

// The largest of these sums beside the others. [Cochran 1941; ISO 5725-2, 7.3.3]
double cochran_p(const std::vector<double>& sums, double degrees) {
  const double most = *std::ranges::max_element(sums);
  const double others = std::accumulate(sums.begin(), sums.end(), 0.0) - most;
  const auto count = static_cast<double>(sums.size());
  if (most == 0) return 1;
  const double f = (count - 1) * most / others;
  return std::min(1.0, count * fisher_above(f, degrees, (count - 1) * degrees));
}

PairedScatter scatter_of(const Complete& complete) {
  PairedScatter scatter;
  const size_t recipes = complete.rows.size();
  if (recipes < 2 || complete.rows.front().size() < 2) return scatter;
  const std::vector<double> sums = residual_squares(complete.rows);
  const int64_t seeds = static_cast<int64_t>(complete.rows.front().size());
  scatter.degrees = (static_cast<int64_t>(recipes) - 1) * (seeds - 1);
  scatter.sd = std::sqrt(2 * std::accumulate(sums.begin(), sums.end(), 0.0) /
                         static_cast<double>(scatter.degrees));
  scatter.is_pooled = recipes == 2 || cochran_p(sums, static_cast<double>(seeds - 1)) >= kUnlike;
  if (!scatter.is_pooled)
    scatter.unlike = static_cast<int64_t>(
        complete.of[static_cast<size_t>(std::ranges::max_element(sums) - sums.begin())]);
  return scatter;
}

PairedDifference difference_of(const std::vector<double>& row, const std::vector<double>& first) {
  NG_CHECK(row.size() == first.size(), row.size(), first.size());
  std::vector<double> differences;
  for (size_t s = 0; s < row.size(); ++s)
    if (row[s] != kNotRun && first[s] != kNotRun) differences.push_back(row[s] - first[s]);
  PairedDifference result;
  result.pairs = static_cast<int64_t>(differences.size());
  if (differences.empty()) return result;
  result.mean = mean_over(differences);
  double squares = 0;
  for (const double d : differences) squares += (d - result.mean) * (d - result.mean);
  if (result.pairs > 1) result.sd = std::sqrt(squares / static_cast<double>(result.pairs - 1));
  return result;
}

// `sd` of one difference.
void put_interval(PairedDifference& difference, double sd, int64_t degrees) {
  if (degrees < 1 || std::isnan(difference.mean) || std::isnan(sd)) return;
  const double error = sd / std::sqrt(static_cast<double>(difference.pairs));
  const auto free = static_cast<double>(degrees);
  difference.half = student_quantile(kConfidence, free) * error;
  difference.p =
      error > 0 ? student_two_sided(difference.mean / error, free) : (difference.mean == 0 ? 1 : 0);
}

}  // namespace

PairedTable paired_table(std::span<const std::vector<double>> losses) {
  PairedTable table;
  if (losses.empty()) return table;
  const Complete complete = complete_part(losses);
  if (!complete.rows.empty()) table.scatter = scatter_of(complete);
  for (const std::vector<double>& row : losses) {
    PairedDifference difference = difference_of(row, losses.front());
    const bool is_first = &row == &losses.front();
    const size_t number = static_cast<size_t>(&row - losses.data());
    const bool pooled =
        table.scatter.is_pooled && std::ranges::find(complete.of, number) != complete.of.end();
    if (!is_first && pooled)
      put_interval(difference, table.scatter.sd, table.scatter.degrees);
    else if (!is_first)
      put_interval(difference, difference.sd, difference.pairs - 1);
    table.differences.push_back(difference);
  }
  return table;
}

}  // namespace ng
