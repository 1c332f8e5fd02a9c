#include "cli/tensors/tensor_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/output.h"

namespace ng::cli {
namespace {

constexpr size_t kShownNames = 3;

}  // namespace

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return '(' + text + ')';
}

std::string percent_text(double share) {
  if (share == 0) return "0 %";
  if (share < 0.0001) return "<.01 %";
  return fmt::format("{:.2f} %", 100 * share);
}

std::string decibel_text(double sqnr_db) {
  if (std::isnan(sqnr_db)) return "NaN";
  if (std::isinf(sqnr_db)) return sqnr_db > 0 ? "exact" : "-inf";
  return fmt::format("{:.2f}", std::fabs(sqnr_db) < 0.005 ? 0.0 : sqnr_db);
}

void note_skipped(const std::string& path, const std::vector<std::string>& names) {
  if (names.empty()) return;
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), kShownNames); ++i)
    list += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kShownNames) list += ", ...";
  note(fmt::format("{}: {} without floating-point values skipped: {}", path,
                   names.size() == 1 ? "1 tensor" : fmt::format("{} tensors", names.size()), list));
}

}  // namespace ng::cli
