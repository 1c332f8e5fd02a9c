#include "report/traffic_text.h"

#include <fmt/format.h>

#include <cmath>

#include "base/units.h"

namespace ng::report {
namespace {

constexpr const char* kTrafficNote =
    "Bytes that all ranks together sent to one another. Control are largest values, losses, norms "
    "and counters. The baselines send every gradient and every weight in their formats.";

/// "25 % less than fp32+bf16": how much a run sends beside a baseline.
struct Against {
  std::string much;  ///< "25 % less", "as many bytes"
  const char* than = "than";
};
Against against(double change) {
  if (change == 0) return {.much = "as many bytes", .than = "as"};
  if (std::fabs(change) < 0.005) return {.much = "about as many bytes", .than = "as"};
  return {.much =
              fmt::format("{:.0f} % {}", 100 * std::fabs(change), change > 0 ? "more" : "less")};
}

}  // namespace

std::string traffic_text(const RunTraffic& traffic) {
  std::string text = size_text(traffic.payload()) + " a step";
  for (size_t i = 0; i < traffic.baselines.size(); ++i) {
    const auto [much, than] = against(traffic.change(i));
    text += fmt::format(", {} {} {}", much, than, kBaselines[i].name);
  }
  const uint64_t activations = traffic.sent[static_cast<size_t>(Traffic::activations)];
  if (activations > 0)
    text += fmt::format("; and {} of activations", size_text(static_cast<double>(activations)));
  return text;
}

Section traffic_section(const RunTraffic& traffic, const History& history) {
  Bars kinds{.title = "Sent in the last step", .bars = {}};
  for (const auto& [kind, bytes] : history.sent())
    if (bytes > 0) kinds.bars.push_back({kind, bytes, size_text(bytes)});
  Bars beside{.title = "Gradients and weights of a step", .bars = {}};
  beside.bars.push_back({"this run", traffic.payload(), size_text(traffic.payload())});
  for (size_t i = 0; i < traffic.baselines.size(); ++i)
    beside.bars.push_back({std::string(kBaselines[i].name), traffic.baselines[i],
                           fmt::format("{}; this run {}", size_text(traffic.baselines[i]),
                                       against(traffic.change(i)).much)});
  return {.heading = "Messages between ranks", .note = kTrafficNote, .bars = {kinds, beside}};
}

}  // namespace ng::report
