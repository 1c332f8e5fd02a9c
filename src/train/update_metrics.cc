#include "train/update_metrics.h"

#include <cmath>

#include "base/json.h"

namespace ng {
namespace {

// JSON has no NaN.
Json quotient(double above, double below) {
  const double value = above / below;
  return std::isfinite(value) ? Json(value) : Json();
}

Json update_json(const Parameter& parameter, const UpdateReport& report, double lr) {
  const double update = std::sqrt(report.update_squares), target = std::sqrt(report.target_squares);
  Json json = {{"changed", quotient(static_cast<double>(report.changed),
                                    static_cast<double>(parameter.value().size()))},
               {"ratio", quotient(update, target)},
               {"projection", quotient(report.product, report.target_squares)},
               {"cosine", quotient(report.product, update * target)}};
  if (parameter.weight.rule == UpdateRule::precision_aware && !parameter.weight.master)
    json["alpha_over_lr"] = quotient(report.alpha, static_cast<double>(static_cast<float>(lr)));
  return json;
}

}  // namespace

Json updates_json(Model& model, std::span<const UpdateReport> reports, double lr) {
  Json json = Json::object();
  for (size_t i = 0; i < reports.size(); ++i) {
    const Parameter& parameter = model.parameters()[i];
    if (parameter.spec.is_vector) continue;
    json[parameter.spec.name] = update_json(parameter, reports[i], lr);
  }
  return json;
}

}  // namespace ng
