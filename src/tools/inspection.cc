#include "tools/inspection.h"

#include <fmt/format.h>

#include <string>

#include "base/json.h"
#include "base/json_number.h"

namespace ng {

Json trial_json(const FormatTrial& trial) {
  const ErrorMetrics& errors = trial.errors;
  return {{"format", trial.name},
          {"scale_rule", trial.rule},
          {"bits_per_value", trial.bits},
          {"sqnr_db", json_number(errors.sqnr_db)},
          {"relative_mse", json_number(errors.relative_mse)},
          {"underflow", errors.underflow},
          {"saturation", errors.saturation},
          {"max_abs_error", json_number(errors.max_abs)},
          {"max_relative_error", json_number(errors.max_relative)},
          {"bias", json_number(errors.bias)},
          {"lowest_scale", json_number(static_cast<double>(trial.low_scale))},
          {"highest_scale", json_number(static_cast<double>(trial.high_scale))}};
}

Json inspection_json(const io::SafetensorsEntry& entry, const TensorFacts& facts,
                     const std::vector<RuleTrials>& trials) {
  Json binades = Json::object(), formats = Json::array(), recommended = Json::object();
  for (int e = Binades::kLowest; e < 128; ++e)
    if (facts.binades.at(e) > 0) binades[std::to_string(e)] = facts.binades.at(e);
  for (const RuleTrials& rules : trials) {
    Json format = trial_json(rules.front());
    for (const FormatTrial& trial : rules)
      if (!trial.rule.empty()) format["rules"].push_back(trial_json(trial));
    formats.push_back(std::move(format));
  }
  const std::vector<FormatTrial> own = own_rules(trials);
  for (const double level : kSqnrLevels) {
    const FormatTrial* best = cheapest(own, level);
    recommended[fmt::format("{:.0f}", level)] = best == nullptr ? Json() : Json(best->name);
  }
  return {{"name", entry.name},     {"dtype", entry.dtype}, {"shape", entry.shape},
          {"values", facts.values}, {"zeros", facts.zeros}, {"nan", facts.nan},
          {"inf", facts.inf},       {"min", facts.min},     {"max", facts.max},
          {"amax", facts.amax()},   {"mean", facts.mean()}, {"rms", facts.rms()},
          {"binades", binades},     {"formats", formats},   {"recommended", recommended}};
}

}  // namespace ng
