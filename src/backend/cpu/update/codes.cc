#include "backend/cpu/update/codes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/update/codes.cc"
#include <hwy/foreach_target.h>  // once per instruction set

#include "backend/cpu/simd/kernel-inl.h"
#include "base/error.h"
#include "format/codec.h"
#include "math/round.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

HWY_INLINE I16 Whole(F16 x) {
  return ForParts<I16>([&](size_t p) HWY_ATTR { return hn::ConvertTo(I16::Tag(), x.part[p]); });
}

HWY_INLINE I16 ShiftRightBy(I16 a, int bits) {
  return ForParts<I16>([&](size_t p) HWY_ATTR { return hn::ShiftRightSame(a.part[p], bits); });
}

HWY_INLINE void StoreHalves(I16 x, uint16_t* to, int64_t left) {
  alignas(64) int32_t wide[kLanes];
  Store16(x, wide);
  for (int64_t i = 0; i < left; ++i) to[i] = static_cast<uint16_t>(wide[i]);
}

// Normal numbers have field and mantissa where FP32 has them, shifted and rebiased; subnormals are
// multiples of the smallest.
void FloatingCodesOf(const FloatGrid& grid, int sign_shift, const float* elements, int64_t count,
                     uint16_t* codes) {
  const int shift = 23 - grid.mantissa_bits;
  const bool as_fp32 = grid.bias == 127;  // subnormals are FP32's
  const I16 rebias = Set16((127 - grid.bias) * (1 << grid.mantissa_bits));
  const I16 least_normal = Set16(static_cast<int32_t>(float_bits(pow2(1 - grid.bias))));
  const F16 per_subnormal = Set16(as_fp32 ? 0.0f : pow2(grid.bias - 1 + grid.mantissa_bits));
  const I16 largest = Set16(static_cast<int32_t>(grid.max_code));
  const I16 infinity = Set16(static_cast<int32_t>(grid.inf_code));
  const I16 nan = Set16(static_cast<int32_t>(grid.nan_code));
  ForLanes(count, [&](int64_t i, auto left) HWY_ATTR {
    const F16 element = Load16(elements + i, left);
    const I16 bits = Bits<int32_t>(Abs(element));
    const I16 normal = Sub(ShiftRightBy(bits, shift), rebias);
    const F16 small = Bits<float>(Min(bits, least_normal));  // never NaN
    const I16 subnormal = Whole(Mul(small, per_subnormal));
    I16 code = as_fp32 ? normal : Select(Lt(bits, least_normal), subnormal, normal);
    const auto above = Gt(code, largest);
    code = Select(above, Select(Eq(bits, Set16(0x7F800000)), infinity, nan), code);
    const I16 sign = And(Bits<int32_t>(ShiftRight<16>(Bits<uint32_t>(element))), Set16(0x8000));
    StoreHalves(Or(code, ShiftRightBy(sign, sign_shift)), codes + i, left);
  });
}

void IntegerCodesOf(int mantissa_bits, int32_t mask, const float* elements, int64_t count,
                    uint16_t* codes) {
  const F16 steps = Set16(static_cast<float>(1 << mantissa_bits));
  ForLanes(count, [&](int64_t i, auto left) HWY_ATTR {
    const I16 n = Whole(Mul(Load16(elements + i, left), steps));
    StoreHalves(And(n, Set16(mask)), codes + i, left);
  });
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(FloatingCodesOf);
HWY_EXPORT(IntegerCodesOf);

void codes_of(const ElementFormat& format, const float* elements, int64_t count, uint16_t* codes) {
  NG_CHECK(format.bits <= 16 && format.is_signed && format.kind != ElementKind::power, format.name);
  if (format.kind == ElementKind::integer) {
    HWY_DYNAMIC_DISPATCH(IntegerCodesOf)
    (format.mantissa_bits, (1 << format.bits) - 1, elements, count, codes);
    return;
  }
  NG_CHECK(format.bias <= 127 && format.specials != Specials::fnuz, format.name);
  HWY_DYNAMIC_DISPATCH(FloatingCodesOf)
  (grid_of(format), 16 - format.bits, elements, count, codes);
}

}  // namespace ng::cpu
#endif
