// The words of recipes for what an operand's scale is.
#pragma once

#include "base/keys.h"
#include "format/operand.h"

namespace ng {

inline const Choices<ScaleKind> kScaleKinds = {{{"none", ScaleKind::none},
                                                {"fp32", ScaleKind::fp32},
                                                {"pow2", ScaleKind::pow2},
                                                {"e8m0", ScaleKind::e8m0},
                                                {"e4m3", ScaleKind::e4m3}}};
inline const Choices<ScaleKind> kTensorScales = {
    {{"none", ScaleKind::none}, {"fp32", ScaleKind::fp32}, {"pow2", ScaleKind::pow2}}};
inline const Choices<ScaleRule> kScaleRules = [] {
  Choices<ScaleRule> rules;
  for (const ScaleRule rule : scale_rules()) rules.items.emplace_back(name_of(rule), rule);
  return rules;
}();

}  // namespace ng
