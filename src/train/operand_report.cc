#include "train/operand_report.h"

#include <array>

namespace ng {
namespace {

Json shares(const OperandStats& stats) {
  const auto share = [&](uint64_t count) {
    return static_cast<double>(count) / static_cast<double>(stats.values);
  };
  Json json = {{"saturated", share(stats.saturated)}, {"flushed", share(stats.flushed)}};
  if (stats.nan + stats.inf > 0) json["nonfinite"] = stats.nan + stats.inf;
  return json;
}

std::string role_name(size_t role) { return std::string(name_of(static_cast<OperandRole>(role))); }

}  // namespace

Json operand_shares(Model& model) {
  std::array<OperandStats, kOperandRoles> sums{};
  for (size_t i = 0; i < model.stats().size(); ++i) sums[i % kOperandRoles] += model.stats()[i];
  Json json = Json::object();
  for (size_t role = 0; role < kOperandRoles; ++role)
    if (sums[role].values > 0) json[role_name(role)] = shares(sums[role]);
  return json;
}

Json operand_shares_by_layer(Model& model) {
  Json json = Json::object();
  for (size_t i = 0; i < model.stats().size(); ++i) {
    const OperandStats& stats = model.stats()[i];
    if (stats.values == 0) continue;
    json[model.linears()[i / kOperandRoles]->name()][role_name(i % kOperandRoles)] = shares(stats);
  }
  return json;
}

}  // namespace ng
