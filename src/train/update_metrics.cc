#include "train/update_metrics.h"

#include <cmath>

#include "base/json.h"

namespace ng {
namespace {

std::optional<double> quotient(double a, double b) {
  const double q = a / b;
  return std::isfinite(a) && b > 0 && std::isfinite(q) ? std::optional(q) : std::nullopt;
}

std::optional<double> root(double squares) {
  return std::isfinite(squares) ? std::optional(std::sqrt(squares)) : std::nullopt;
}

/// Absent figures are null.
Json json_of(const std::optional<double>& figure) { return figure ? Json(*figure) : Json(); }

bool is_searched(const UpdatedWeight& weight) {
  return weight.rule == UpdateRule::precision_aware && !weight.master &&
         !weight.value.cast.is_fp32();
}

Json update_json(const Parameter& parameter, const UpdateReport& report, double lr) {
  const UpdateFigures figures = figures_of(report, parameter.weight, static_cast<float>(lr));
  Json json = {{"changed", figures.changed / parameter.spec.cut.parts},  // of all ranks' parts
               {"ratio", json_of(figures.ratio)},
               {"projection", json_of(figures.projection)},
               {"cosine", json_of(figures.cosine)}};
  if (is_searched(parameter.weight)) json["alpha_over_lr"] = json_of(figures.alpha_over_lr);
  return json;
}

}  // namespace

UpdateFigures figures_of(const UpdateReport& report, const UpdatedWeight& weight, float lr) {
  UpdateFigures figures;
  figures.update_norm = root(report.update_squares);
  figures.target_norm = root(report.target_squares);
  const double asked = std::sqrt(report.target_squares), moved = std::sqrt(report.update_squares);
  if (is_searched(weight)) figures.alpha_over_lr = quotient(report.alpha, lr);
  figures.ratio = quotient(moved, asked);
  figures.projection = quotient(report.product, report.target_squares);
  figures.cosine = quotient(report.product, asked * moved);
  figures.changed =
      static_cast<double>(report.changed) / static_cast<double>(weight.value.view.size());
  return figures;
}

Json updates_json(Model& model, std::span<const UpdateReport> reports, double lr) {
  Json json = Json::object();
  for (size_t i = 0; i < reports.size(); ++i) {
    const Parameter& parameter = model.parameters()[i];
    if (parameter.spec.is_vector || parameter.spec.is_frozen) continue;
    json[parameter.spec.name] = update_json(parameter, reports[i], lr);
  }
  return json;
}

}  // namespace ng
