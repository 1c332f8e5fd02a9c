#include "base/nearest.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace ng {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  const size_t width = b.size() + 1;
  std::vector<int> before(width), last(width), row(width);  // rows i - 2, i - 1, i of the table
  for (size_t j = 0; j < width; ++j) last[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j < width; ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
          lower(a[i - 2]) == lower(b[j - 1]))
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last.back();
}

std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates) {
  std::string_view best;
  int least = std::numeric_limits<int>::max();
  for (const std::string_view candidate : candidates) {
    const int distance = edit_distance(name, candidate);
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates) {
  const std::string_view best = nearest(name, candidates);
  const size_t slip = std::max<size_t>(std::max(name.size(), best.size()) / 3, 1);
  const bool is_near = !best.empty() && edit_distance(name, best) <= static_cast<int>(slip);
  return is_near ? "did you mean \"" + std::string(best) + "\"? " : "";
}

std::string did_you_mean(std::string_view name, std::span<const std::string> candidates) {
  return did_you_mean(name, std::vector<std::string_view>(candidates.begin(), candidates.end()));
}

}  // namespace ng
