#include "train/operand_report.h"

#include <array>
#include <cmath>

#include "base/json.h"

namespace ng {
namespace {

Json shares(const OperandStats& stats) {
  const auto share = [&](uint64_t count) {
    return static_cast<double>(count) / static_cast<double>(stats.values);
  };
  Json json = {{"saturated", share(stats.saturated)}, {"flushed", share(stats.flushed)}};
  if (stats.narrowed > 0) json["narrowed"] = share(stats.narrowed);
  if (stats.nan + stats.inf > 0) json["nonfinite"] = stats.nan + stats.inf;
  return json;
}

std::string role_name(size_t role) { return std::string(name_of(static_cast<OperandRole>(role))); }

}  // namespace

Json operand_shares(std::span<const OperandStats> counted) {
  std::array<OperandStats, kOperandRoles> sums{};
  for (size_t i = 0; i < counted.size(); ++i) sums[i % kOperandRoles] += counted[i];
  Json json = Json::object();
  for (size_t role = 0; role < kOperandRoles; ++role)
    if (sums[role].values > 0) json[role_name(role)] = shares(sums[role]);
  return json;
}

Json operand_shares_by_layer(std::span<const OperandStats> counted, const Model& model,
                             const OperandErrors& errors) {
  Json json = Json::object();
  for (size_t i = 0; i < counted.size(); ++i) {
    const OperandStats& stats = counted[i];
    const std::string& layer = model.linears()[i / kOperandRoles]->name();
    const std::string role = role_name(i % kOperandRoles);
    if (stats.values > 0) json[layer][role] = shares(stats);
    if (const double sqnr_db = errors.sqnr_db(layer, role); std::isfinite(sqnr_db))
      json[layer][role]["sqnr_db"] = std::round(sqnr_db * 1000) / 1000;  // of a sample
  }
  return json;
}

OperandStats lost_of_noisy_weights(std::span<const OperandStats> counted, const Model& model) {
  constexpr auto kWeight = static_cast<size_t>(OperandRole::fprop_weight);
  OperandStats sum;
  for (size_t i = kWeight; i < counted.size(); i += kOperandRoles)
    if (model.linears()[i / kOperandRoles]->has_noise()) sum += counted[i];
  return sum;
}

}  // namespace ng
