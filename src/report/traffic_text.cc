#include "report/traffic_text.h"

#include <fmt/format.h>

#include <cmath>

#include "base/units.h"

namespace ng::report {
namespace {

constexpr const char* kNote =
    "Bytes that all ranks together sent to one another. Control are largest values, losses, norms "
    "and counters. The baselines send every gradient and every weight in their formats.";

std::string against(double change) {
  return fmt::format("{:.0f} % {}", 100 * std::fabs(change), change > 0 ? "more" : "less");
}

}  // namespace

std::string traffic_text(const RunTraffic& traffic) {
  std::string text = size_text(traffic.payload()) + " a step";
  for (size_t i = 0; i < traffic.baselines.size(); ++i)
    text += fmt::format(", {} than {}", against(traffic.change(i)), kBaselines[i].name);
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
                                       against(traffic.change(i)))});
  return {.heading = "Messages between ranks", .note = kNote, .bars = {kinds, beside}};
}

}  // namespace ng::report
