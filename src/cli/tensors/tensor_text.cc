#include "cli/tensors/tensor_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "base/json.h"
#include "base/json_number.h"
#include "cli/output.h"

namespace ng::cli {
namespace {

constexpr size_t kShownNames = 3;

}  // namespace

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
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

std::string percent_cell(const Json& share) { return percent_text(share.get<double>()); }
std::string decibel_cell(const Json& sqnr_db) { return decibel_text(number_of(sqnr_db)); }

void note_skipped(const std::string& path, const std::vector<std::string>& names) {
  if (names.empty()) return;
  const auto shown = std::span(names).first(std::min(names.size(), kShownNames));
  note(fmt::format("{}: {} without floating-point values skipped: {}{}", path,
                   counted(std::ssize(names), "tensor"), fmt::join(shown, ", "),
                   names.size() > kShownNames ? ", ..." : ""));
}

}  // namespace ng::cli
