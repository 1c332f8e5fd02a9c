#include "format/learned_formats.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "math/noise_precision.h"

namespace ng {
namespace {

constexpr double kLeastTabulatedBits = 3;
constexpr double kMostBits = 64;  // more than any format has: FP32 from there on as well

// Under "floor" a block's largest weight may lose an eighth of itself; under "rceil" it is rounded
// like the others.
LearnedFormat in_blocks(std::string_view name) {
  LearnedFormat format{name, operand_of(name)};
  format.cast.scale_rule = ScaleRule::rceil;
  return format;
}

LearnedFormat scaled_fp16() {
  LearnedFormat format{"fp16", operand_of("fp16")};
  format.cast.scale = ScaleKind::pow2;
  return format;
}

bool suffices(const ElementFormat& element, const NoisePrecision& needed) {
  return element.exponent_bits >= needed.exponent_w_hat &&
         element.mantissa_bits >= needed.mantissa_w_hat;
}

}  // namespace

std::span<const LearnedFormat> learned_formats() {
  static const std::array kFormats = {in_blocks("mxfp6_e3m2"), in_blocks("mxfp8_e4m3"),
                                      LearnedFormat{"bf16", operand_of("bf16")}, scaled_fp16(),
                                      LearnedFormat{"fp32", operand_of("fp32")}};
  return kFormats;
}

const LearnedFormat& format_for_bits(double b_t, int least_bits) {
  NG_CHECK(std::isfinite(b_t), b_t);
  const NoisePrecision needed =
      precision_for_noise(std::clamp(b_t, kLeastTabulatedBits, kMostBits));
  const std::span<const LearnedFormat> formats = learned_formats();
  const auto found = std::find_if(formats.begin(), formats.end(), [&](const LearnedFormat& f) {
    return f.bits() >= least_bits && suffices(*f.cast.element, needed);
  });
  return found == formats.end() ? formats.back() : *found;
}

}  // namespace ng
