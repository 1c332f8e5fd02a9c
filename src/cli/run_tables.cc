#include "cli/run_tables.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "cli/output.h"
#include "report/memory_text.h"

namespace ng::cli {

std::string time_table(const TimeByKind& seconds,
                       const std::vector<std::pair<std::string_view, double>>& others) {
  double total = total_seconds(seconds);
  for (const auto& [name, taken] : others) total += taken;
  std::vector<size_t> order(kTimeKinds);
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return seconds[a] != seconds[b] ? seconds[a] > seconds[b] : a < b;
  });
  Table table({"time", "seconds", "%"});
  const auto add = [&](std::string_view name, double taken) {
    if (taken > 0)
      table.row({std::string(name), fmt::format("{:.2f}", taken),
                 fmt::format("{:.1f}", 100 * taken / total)});
  };
  for (const size_t kind : order) add(name_of(static_cast<TimeKind>(kind)), seconds[kind]);
  for (const auto& [name, taken] : others) add(name, taken);
  return table.text();
}

std::string memory_table(const MemoryPlan& plan, const MemoryPlan& fp32, int64_t parameters) {
  Table table(report::memory_heading());
  for (std::vector<std::string>& row : report::memory_rows(plan, fp32, parameters))
    table.row(std::move(row));
  return table.text();
}

}  // namespace ng::cli
