#include "cli/time_table.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "cli/output.h"

namespace ng::cli {

std::string time_table(const TimeByKind& seconds) {
  const double total = total_seconds(seconds);
  std::vector<size_t> order(kTimeKinds);
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return seconds[a] != seconds[b] ? seconds[a] > seconds[b] : a < b;
  });
  Table table({"time", "seconds", "%"});
  for (const size_t kind : order)
    if (seconds[kind] > 0)
      table.row({std::string(name_of(static_cast<TimeKind>(kind))),
                 fmt::format("{:.2f}", seconds[kind]),
                 fmt::format("{:.1f}", 100 * seconds[kind] / total)});
  return table.text();
}

}  // namespace ng::cli
