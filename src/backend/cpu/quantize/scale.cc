// Block scales from block maxima, sixteen blocks at a time. [formats.md §3.2, §4.1, §5, §6]
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/quantize/scale.cc"
#include <hwy/foreach_target.h>  // once per instruction set
#include <hwy/highway.h>

#include "backend/cpu/quantize/kernels.h"
#include "backend/cpu/simd/lanes-inl.h"
#include "math/round.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

struct ScalePair {
  F16 decode, multiplier;
};

HWY_INLINE I16 OneWhere(Mask16<int32_t> mask) { return Select(mask, Set16(1), Zero16<int32_t>()); }

// E8M0 code before clamping. Subnormal amaxes matter only where emax is 0: those from 2^-127 up are
// shifted to a normal mantissa below biased exponent 0, smaller ones get code 0 by any rule.
HWY_INLINE I16 PowerCode(const ScaleRequest& request, I16 amax) {
  const I16 exponent = ShiftRight<23>(amax);
  const I16 fraction = Set16(0x007FFFFF);
  const Mask16<int32_t> is_normal = Gt(exponent, Zero16<int32_t>());
  const Mask16<int32_t> is_tiny = Lt(amax, Set16(0x00400000));
  const I16 shifted = Select(is_tiny, Zero16<int32_t>(), And(ShiftLeft<1>(amax), fraction));
  const I16 mantissa = Select(is_normal, And(amax, fraction), shifted);
  const I16 floor_code = Sub(exponent, Set16(request.emax));
  switch (request.rule) {
    case ScaleRule::ceil:
      return Add(floor_code, OneWhere(Gt(mantissa, Zero16<int32_t>())));
    case ScaleRule::rceil: {
      const auto largest = static_cast<int32_t>(float_bits(request.max) & 0x007FFFFFu);
      return Add(floor_code, OneWhere(Gt(mantissa, Set16(largest))));
    }
    case ScaleRule::even: {
      const I16 half = Set16(1 << (22 - request.mantissa_bits));
      return Sub(ShiftRight<23>(Add(amax, half)), Set16(request.emax));
    }
    default:
      return floor_code;
  }
}

// 2^(code - 127) for codes 0 ... 254: code 0 is the subnormal 2^-127.
HWY_INLINE F16 PowerOfCode(I16 code) {
  return Bits<float>(Select(Gt(code, Zero16<int32_t>()), ShiftLeft<23>(code), Set16(0x00400000)));
}

HWY_INLINE ScalePair PowerScale(const ScaleRequest& request, I16 amax) {
  const I16 code = Min(Max(PowerCode(request, amax), Zero16<int32_t>()), Set16(254));
  const Mask16<int32_t> is_finite = Lt(amax, Set16(static_cast<int32_t>(kFloatInf)));
  const I16 nan = Set16(0x7FC00000);
  return {Bits<float>(Select(is_finite, Bits<int32_t>(PowerOfCode(code)), nan)),
          PowerOfCode(Sub(Set16(254), code))};
}

// UE4M3 value of g >= 0, saturated. [formats.md §4.1, step 3]
HWY_INLINE F16 RoundScale(F16 g, bool up) {
  const F16 limited = Min(g, Set16(448.0f));
  const U16 exponent = And(Bits<uint32_t>(limited), Set16(kFloatInf));
  const F16 binade = Max(Bits<float>(exponent), Set16(0x1p-6f));
  const F16 magic = Mul(binade, Set16(0x1.8p20f));
  const F16 nearest = Sub(Add(limited, magic), magic);
  if (!up) return nearest;
  // Where nearest went down the next code is one spacing of g's binade higher, never above 448.
  const F16 next = Add(nearest, Mul(binade, Set16(0x1p-3f)));
  return Select(Lt(nearest, limited), next, nearest);
}

HWY_INLINE ScalePair TwoLevelScaleOf(const ScaleRequest& request, F16 amax, F16 tensor, F16 block) {
  const F16 g = Mul(Mul(amax, block), Set16(request.refit));
  const F16 scale = RoundScale(g, request.rule == ScaleRule::up);
  const F16 inverse = Div(Set16(1.0f), Mul(scale, tensor));
  const F16 multiplier = Min(inverse, Set16(kFloatMax));
  return {scale, Select(Eq(scale, Zero16()), Zero16(), multiplier)};
}

void BlockScales(const ScaleRequest& request, const uint32_t* amax, int64_t count, float* decode,
                 float* multiplier) {
  F16 tensor = Set16(request.two_level.tensor), block = Set16(request.two_level.block);
  for (int64_t i = 0; i < count; i += kLanes) {
    const U16 bits = Load16(amax + i, count - i);
    if (request.own) {
      tensor = Load16(request.own.tensor + i, count - i);
      block = Load16(request.own.block + i, count - i);
    }
    const ScalePair pair = request.kind == ScaleKind::e8m0
                               ? PowerScale(request, Bits<int32_t>(bits))
                               : TwoLevelScaleOf(request, Bits<float>(bits), tensor, block);
    Store16(pair.decode, decode + i, count - i);
    Store16(pair.multiplier, multiplier + i, count - i);
  }
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(BlockScales);

void block_scales(const ScaleRequest& request, const uint32_t* amax, int64_t count, float* decode,
                  float* multiplier) {
  if (request.kind == ScaleKind::e8m0 || request.kind == ScaleKind::e4m3)
    return HWY_DYNAMIC_DISPATCH(BlockScales)(request, amax, count, decode, multiplier);
  const bool pow2 = request.kind == ScaleKind::pow2;
  for (int64_t i = 0; i < count; ++i) {
    const float a = float_of_bits(amax[i]);
    multiplier[i] = request.integer ? integer_scale_of(a, request.fit, pow2)
                                    : encode_scale_of(a, request.fit, pow2);
    decode[i] = request.integer ? multiplier[i] : 1.0f / multiplier[i];
  }
}

}  // namespace ng::cpu
#endif
