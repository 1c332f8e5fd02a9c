#include "backend/cpu/gemm/rule.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace ng::cpu {
namespace {

bool is_mxfp4(const OperandSpec& spec) {
  return spec.cast.scale == ScaleKind::e8m0 && spec.cast.block.cols == 32 &&
         spec.cast.element->short_name == "e2m1";
}

bool is_integer(const OperandSpec& spec) {
  const ElementFormat& element = *spec.cast.element;
  return element.kind == ElementKind::integer && element.mantissa_bits == 0;
}

// fl32(h / (pa · pb)), h = 1/(g·c_g²). [formats.md §7]
float alpha_of(const OperandSpec& a, const OperandSpec& b) {
  const bool halved = a.hadamard.size == 32 || a.hadamard.size == 128;
  return static_cast<float>((halved ? 0.5 : 1.0) /
                            (double{a.cast.prescale} * double{b.cast.prescale}));
}

GemmRule rule_of_blocks(const OperandSpec& a, const OperandSpec& b) {
  GemmRule rule;
  if (is_mxfp4(a) && is_mxfp4(b)) {
    rule = {.sum = Sum::groups, .segment = 32, .unit = kGroup};
    rule.a_scales = rule.b_scales = ScaleUse::groups;
    return rule;
  }
  const int64_t small = std::min(a.cast.block.cols, b.cast.block.cols);
  const int64_t large = std::max(a.cast.block.cols, b.cast.block.cols);
  NG_CHECK(large % small == 0, small, large);
  const auto are_codes = [](const Operand& cast) {
    return has_scale_codes(cast) && !cast.has_folded_scales();
  };
  rule.sum = are_codes(a.cast) && are_codes(b.cast) ? Sum::scaled_add : Sum::scaled_fma;
  rule.segment = small;
  rule.unit = std::lcm(small, kWord);  // interleaved elements are read by words
  rule.a_scales = rule.b_scales = ScaleUse::segments;
  return rule;
}

ScaleUse decoded_scales(const OperandSpec& spec) {
  return is_blocked(spec) ? ScaleUse::decoded : ScaleUse::none;
}

}  // namespace

bool is_blocked(const OperandSpec& spec) {
  return spec.cast.block.kind == Block::Kind::tile && !spec.cast.is_unscaled();
}

GemmRule rule_of(const OperandSpec& a, const OperandSpec& b, SumOrder sum) {
  GemmRule rule;
  if (sum == SumOrder::tile32) {
    NG_CHECK(a.cast.factors_are_bf16() && b.cast.factors_are_bf16());
    rule = {.sum = Sum::tile32, .unit = kTileDepth};
    rule.a_scales = decoded_scales(a);
    rule.b_scales = decoded_scales(b);
  } else if (is_blocked(a) && is_blocked(b)) {
    rule = rule_of_blocks(a, b);
  } else if (is_blocked(a)) {
    rule.a_scales = ScaleUse::decoded;
  } else if (is_blocked(b)) {
    rule.b_scales = ScaleUse::decoded;
  } else if (is_integer(a) && is_integer(b)) {
    rule = {.sum = Sum::integer, .segment = kIntegerSegment, .unit = kIntegerSegment};
  }
  rule.alpha = alpha_of(a, b);
  return rule;
}

}  // namespace ng::cpu
