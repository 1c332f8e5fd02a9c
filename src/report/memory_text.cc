#include "report/memory_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/units.h"

namespace ng::report {
namespace {

std::string size_of(size_t bytes) {
  return bytes == 0 ? "" : size_text(static_cast<double>(bytes));
}

std::string per_parameter(size_t bytes, int64_t parameters) {
  return fmt::format("{:.2f} B", static_cast<double>(bytes) / static_cast<double>(parameters));
}

std::string elements_of(const StoredPart& part) {
  return fmt::format("{}", fmt::join(part.elements, "+"));
}

}  // namespace

std::vector<std::string> memory_heading() {
  return {"memory", "most", "per parameter", "at the peak", "FP32 AdamW"};
}

std::vector<std::vector<std::string>> memory_rows(const MemoryPlan& plan, const MemoryPlan& fp32,
                                                  int64_t parameters) {
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < kMemoryKinds; ++i) {
    if (plan.most[i] == 0 && fp32.most[i] == 0) continue;
    const auto kind = static_cast<MemoryKind>(i);
    std::vector<const StoredPart*> parts;
    for (const StoredPart& part : plan.stored)
      if (part.kind == kind) parts.push_back(&part);
    std::string name(name_of(kind));
    if (parts.size() == 1) name += ", " + elements_of(*parts.front());
    rows.push_back({name, size_of(plan.most[i]), per_parameter(plan.most[i], parameters),
                    size_of(plan.bytes[i]), size_of(fp32.most[i])});
    if (parts.size() < 2) continue;
    for (const StoredPart* part : parts)
      rows.push_back({fmt::format("- {}, {}", part->name, elements_of(*part)), size_of(part->bytes),
                      per_parameter(part->bytes, parameters), "", ""});
  }
  if (plan.gaps > 0) rows.push_back({"gaps", "", "", size_of(plan.gaps), ""});
  rows.push_back({"total", "", per_parameter(plan.total, parameters), size_of(plan.total),
                  size_of(fp32.total)});
  return rows;
}

std::string memory_at_peak_text(const MemoryPlan& plan, const MemoryPlan& fp32,
                                int64_t parameters) {
  return fmt::format("{} at the peak, {} per parameter; FP32 AdamW {}", size_of(plan.total),
                     per_parameter(plan.total, parameters), size_of(fp32.total));
}

std::string memory_kinds_text(const MemoryPlan& plan) {
  std::vector<std::string> kinds;
  for (size_t i = 0; i < kMemoryKinds; ++i)
    if (100 * plan.most[i] >= plan.total)
      kinds.push_back(
          fmt::format("{} {}", name_of(static_cast<MemoryKind>(i)), size_of(plan.most[i])));
  return fmt::format("{}", fmt::join(kinds, ", "));
}

std::string roles_text(const MemoryPlan& plan) {
  const std::optional<RoleBytes> roles = bytes_by_role(plan);
  if (!roles) return "";
  return fmt::format("policy {} of weights, masters, moments, gradients; reference {} of weights",
                     size_of(roles->policy), size_of(roles->reference));
}

}  // namespace ng::report
