// Scales of blocks, rows and tensors from their amax: inline rules for host and device.
// [formats.md §3.2, §4.1, §5, §6]
#pragma once

#include <cstdint>

#include "format/operand.h"
#include "math/round.h"

namespace ng {

/// What the scale rules need to know of an element format.
struct ElementRange {
  float max = 0;          ///< largest emitted value
  int emax = 0;           ///< floor(log2(max))
  int mantissa_bits = 0;  ///< y
};
[[nodiscard]] ElementRange range_of(const ElementFormat& format);

// ---------------------------------------------------------------- E8M0 [formats.md §3.2]

inline constexpr uint32_t kE8m0NanCode = 0xFF;

/// Unbiased exponent of the scale of a block with finite amax > 0, not yet clamped. `mse` gives
/// floor's; the encoder then compares it with the next.
NG_HD constexpr int e8m0_exponent(ScaleRule rule, float amax, const ElementRange& element) {
  const int floor_e = floor_log2(amax) - element.emax;
  switch (rule) {
    case ScaleRule::rceil:
      return floor_e + (significand_of(amax) > significand_of(element.max) ? 1 : 0);
    case ScaleRule::ceil:
      return floor_e + (significand_of(amax) != 1u << 23 ? 1 : 0);
    case ScaleRule::even:
      return floor_log2(float_of_bits(float_bits(amax) + (1u << (22 - element.mantissa_bits)))) -
             element.emax;
    default:
      return floor_e;
  }
}

/// The same of a scale t > 0 that only has to become a power of two: `even` takes the nearest in
/// log2. [linear.md 6]
NG_HD constexpr int e8m0_exponent(ScaleRule rule, float t) {
  const uint64_t significand = significand_of(t);  // 2^23 ... 2^24
  const bool is_up = rule == ScaleRule::even ? significand * significand > uint64_t{1} << 47
                                             : rule != ScaleRule::floor && significand != 1u << 23;
  return floor_log2(t) + (is_up ? 1 : 0);
}

/// Code of a scale 2^e: clamped to the finite codes.
NG_HD constexpr uint32_t e8m0_code(int e) {
  return e < -127 ? 0u : e > 127 ? 254u : static_cast<uint32_t>(e + 127);
}

/// 2^(code - 127), NaN for 0xFF.
NG_HD constexpr float e8m0_value(uint32_t code) {
  return code == kE8m0NanCode ? float_of_bits(0x7FC00000u) : pow2(static_cast<int>(code) - 127);
}

/// What elements are multiplied by before they are encoded: 2^(127 - code).
NG_HD constexpr float e8m0_multiplier(uint32_t code) { return pow2(127 - static_cast<int>(code)); }

// ---------------------------------------------------------------- two levels [formats.md §4.1]

/// A function: device code sees no constants of a class.
NG_HD constexpr FloatGrid e4m3_grid() {
  return {.mantissa_bits = 3,
          .bias = 7,
          .max_code = 0x7E,
          .inf_code = 0,
          .nan_code = 0x7F,
          .sign_mask = 0x80};
}

inline constexpr uint32_t kE4m3One = 0x38;  ///< the code of 1

/// Constants of a tensor whose blocks have E4M3 scales.
struct TwoLevelScale {
  float tensor = 1;  ///< s_t, the decode multiplier of the whole tensor
  float block = 1;   ///< m: a block's scale is E4M3(amax · m)
};

/// The element value that the largest magnitude of a block is scaled to: the first of several. Of
/// eden, whose scales may grow by 17/16 when they are rounded, it is a little above the largest.
NG_HD constexpr float first_fit(const Operand& cast, float element_max) {
  if (cast.fit.size() > 0) return cast.fit[0];
  if (cast.rounding != Rounding::eden) return element_max;
  return static_cast<float>(double{element_max} / (17.0 / 16.0 * 0.93));
}

/// S, by which eden corrects the scales of a Hadamard group of values y and decoded values v, from
/// Σ y² and Σ y · v; 1 where nothing is left of them or they are not finite. [linear.md 5]
NG_HD constexpr float eden_correction(double squares, double products) {
  const auto s = static_cast<float>(squares / products);
  return products != 0 && s <= kFloatMax && s >= -kFloatMax ? s : 1.0f;
}

/// Code of a block's scale so corrected: rounded stochastically, to E4M3.
NG_HD constexpr uint32_t eden_scale_code(float scale, float correction, int random_bits,
                                         uint32_t random) {
  const Rounder rounder{.mode = RoundMode::sr, .bits = random_bits, .random = random};
  return encode_float(e4m3_grid(), scale * correction, rounder, OverflowRule::saturate);
}
NG_HD constexpr float eden_scale(float scale, float correction, int random_bits, uint32_t random) {
  return decode_float(e4m3_grid(), eden_scale_code(scale, correction, random_bits, random));
}

/// Steps 1 to 3: `amax` of the tensor, NaN skipped. kind: none (s_t = 1), fp32, or pow2 (s_t
/// rounded up to a power of two, at least 2^-127, so that its inverse is finite). The block of that
/// amax gets the scale `scale_max` and the element `fit`.
NG_HD constexpr TwoLevelScale two_level_scale(ScaleKind kind, float amax, float fit,
                                              float scale_max = 448.0f) {
  float encode = 1.0f;
  float decode = 1.0f;
  if (kind != ScaleKind::none) {
    encode = amax > 0 ? scale_max * fit / amax : 1.0f;  // 448 · max is exact, others round
    if (encode == 0) encode = 1.0f;                     // amax is infinite
    if (encode > kFloatMax) encode = kFloatMax;
    decode = 1.0f / encode;
  }
  if (kind == ScaleKind::pow2) {
    int e = floor_log2(decode);
    if (pow2(e) < decode) ++e;
    if (e < -127) e = -127;
    decode = pow2(e);
    encode = pow2(-e);
  }
  return {decode, encode * (1.0f / fit)};
}

/// E4M3 code of a block's scale: nearest, or the next one up where it is inexact (`up`). `refit`:
/// the first fit over the block's own, by which its scale grows.
NG_HD constexpr uint32_t e4m3_block_code(ScaleRule rule, float amax, const TwoLevelScale& scale,
                                         float refit = 1.0f) {
  const float g = amax * scale.block * refit;
  return encode_float(e4m3_grid(), g < 448.0f ? g : 448.0f,
                      {.mode = rule == ScaleRule::up ? RoundMode::rup : RoundMode::rne},
                      OverflowRule::saturate);
}

/// Step 4: what the elements of a block are multiplied by; FLT_MAX at most.
NG_HD constexpr float e4m3_multiplier(uint32_t code, const TwoLevelScale& scale) {
  const float decode = decode_float(e4m3_grid(), code) * scale.tensor;
  if (decode == 0) return kFloatMax;
  const float inverse = 1.0f / decode;
  return inverse < kFloatMax ? inverse : kFloatMax;
}

// ---------------------------------------------------------------- FP32 scales [formats.md §5, §6]

/// s = fl32(fit / amax), Inf becoming FLT_MAX; pow2 clears the mantissa (Inf: 2^127), so that it
/// never overflows; amax 0, Inf or NaN: 1. Codes are rounded from fl32(x · s), values are
/// fl32(code · fl32(1/s)).
NG_HD constexpr float encode_scale_of(float amax, float fit, bool power_of_two) {
  if (!(amax > 0) || !(amax <= kFloatMax)) return 1.0f;
  const float s = fit / amax;
  if (!(s <= kFloatMax)) return power_of_two ? pow2(127) : kFloatMax;
  if (!power_of_two) return s;
  const uint32_t u = float_bits(s);
  return u >= 0x00800000u ? float_of_bits(u & 0xFF800000u) : pow2(floor_log2(s));
}

/// The scale of a weight that persists with one power of two for all of it: the one it has stays
/// while MAX/8 <= fl32(amax · s) <= MAX, so that unchanged weights keep their bits. 0: it has none.
/// [errata-2, 14]
NG_HD constexpr float sticky_encode_scale(float current, float amax, float element_max) {
  const float reach = amax * current;
  const bool fits = amax == 0 || (reach >= element_max / 8 && reach <= element_max);
  return current > 0 && current <= kFloatMax && fits ? current
                                                     : encode_scale_of(amax, element_max, true);
}

/// s = fl32(amax / fit), rounded up to a power of two for pow2; the codes of integer elements
/// are rounded from fl32(x / s). amax 0, Inf or NaN, and a quotient that underflows to 0: 1.
NG_HD constexpr float integer_scale_of(float amax, float fit, bool power_of_two) {
  if (!(amax > 0) || !(amax <= kFloatMax)) return 1.0f;
  const float s = amax / fit;
  if (s == 0) return 1.0f;
  if (!power_of_two) return s;
  const int e = floor_log2(s);
  return pow2(pow2(e) < s ? e + 1 : e);
}

/// End of a step of delayed scaling: A over all slots (or the newest), the next encode scale, then
/// the shift: new[i] = old[i+1] for 0 < i < n-1, new[n-1] = old[0], new[0] = 0. A newest amax of 0
/// (nothing was quantized) changes nothing. One that is not finite belongs to a skipped step: it is
/// dropped, so that it does not freeze the scale for n steps.
NG_HD constexpr void roll_history(const Operand& cast, float element_max, float* encode_scale,
                                  float* history) {
  const float newest = history[0];
  const int n = cast.amax_history;
  history[0] = 0;
  if (!(newest > 0) || !(newest <= kFloatMax)) return;
  float amax = newest;
  for (int i = 1; i < n; ++i) {
    if (cast.amax_compute == AmaxCompute::max && history[i] > amax) amax = history[i];
    if (i > 1) history[i - 1] = history[i];
  }
  if (n > 1) history[n - 1] = newest;
  *encode_scale = encode_scale_of(amax, first_fit(cast, element_max) * pow2(-cast.margin),
                                  cast.scale == ScaleKind::pow2);
}

// ---------------------------------------------------------------- affine integers [formats.md §6]

/// value = (q - zero) · scale, q in 0 ... levels.
struct AffineScale {
  float scale = 1;
  uint32_t zero = 0;
};

/// lo, hi: least and greatest value; zero stays exact. `levels` = 2^bits - 1. s = fl32((hi - lo) /
/// levels) from FP64: hi - lo may lie beyond FP32's range, s does not.
NG_HD constexpr AffineScale affine_scale_of(float lo, float hi, uint32_t levels) {
  const float low = lo < 0 ? lo : 0.0f;
  const float high = hi > 0 ? hi : 0.0f;
  const auto scale = static_cast<float>((static_cast<double>(high) - low) / levels);
  if (!(scale > 0) || !(scale <= kFloatMax)) return {};
  const float zero = -low / scale;
  const FloatGrid integers{.mantissa_bits = 23, .bias = -22, .max_code = levels};
  return {scale, encode_float(integers, zero, {}, OverflowRule::saturate)};
}

}  // namespace ng
