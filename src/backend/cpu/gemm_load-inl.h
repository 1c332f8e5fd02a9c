// Loaders of panels: lanes of FP32 (or words of int8) from lanes of what memory holds, and what
// becomes of them with the factor of their row and block or without.
//
// Include after foreach_target.h and inside no namespace.

// Per-target include guard
#if defined(NG_BACKEND_CPU_GEMM_LOAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NG_BACKEND_CPU_GEMM_LOAD_INL_H_
#undef NG_BACKEND_CPU_GEMM_LOAD_INL_H_
#else
#define NG_BACKEND_CPU_GEMM_LOAD_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// What becomes of values that were decoded: they are multiplied by their factor.
struct Decoded {
  template <class D, class V>
  HWY_INLINE V Scaled(D /*d*/, V value, V factor) const {
    return hn::Mul(value, factor);
  }
  template <class D, class V>
  HWY_INLINE V Unscaled(D /*d*/, V value) const {
    return value;
  }
};

struct LoadFp32 : Decoded {
  using Memory = float;
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, const float* from) const {
    return hn::LoadU(d, from);
  }
};

struct LoadBf16Bits : Decoded {
  using Memory = uint16_t;
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, const uint16_t* from) const {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::PromoteTo(du, hn::LoadU(hn::Rebind<uint16_t, D>(), from));
    return hn::BitCast(d, hn::ShiftLeft<16>(bits));
  }
};

struct LoadInt8 : Decoded {
  using Memory = int8_t;
  float unit = 1;
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, const int8_t* from) const {
    const hn::RebindToSigned<D> di;
    const auto integers = hn::PromoteTo(di, hn::LoadU(hn::Rebind<int8_t, D>(), from));
    return hn::Mul(hn::ConvertTo(d, integers), hn::Set(d, unit));
  }
};

// Lanes are four int8 values each; factors are 1, 2, 4 or 8 and keep them within int8.
struct LoadWords : LoadFp32 {
  uint32_t bias = 0;  // 128 in each byte, or 0

  template <class D, class V>
  HWY_INLINE V Scaled(D d, V words, V factor) const {
    const hn::RebindToUnsigned<D> du;
    const auto f = hn::BitCast(du, hn::ConvertTo(hn::RebindToSigned<D>(), factor));
    // Bits that the multiplication moves from one byte into the lowest bits of the next.
    const auto strayed = hn::Mul(hn::Sub(f, hn::Set(du, 1u)), hn::Set(du, 0x01010101u));
    const auto shifted = hn::AndNot(strayed, hn::Mul(hn::BitCast(du, words), f));
    return Unscaled(d, hn::BitCast(d, shifted));
  }
  template <class D, class V>
  HWY_INLINE V Unscaled(D d, V words) const {
    const hn::RebindToUnsigned<D> du;
    return hn::BitCast(d, hn::Xor(hn::BitCast(du, words), hn::Set(du, bias)));
  }
};

// Values as round(magnitude's bits) makes them, with their signs; NaN stays NaN.
template <class D, class Round>
HWY_INLINE hn::Vec<D> LoadRounded(D d, const float* from, const Round& round) {
  const hn::RebindToUnsigned<D> du;
  const auto u = hn::BitCast(du, hn::LoadU(d, from));
  const auto sign = hn::And(u, hn::Set(du, 0x80000000u));
  const auto magnitude = hn::Xor(u, sign);
  const auto nan = hn::Gt(magnitude, hn::Set(du, 0x7F800000u));
  const auto r = hn::IfThenElse(nan, hn::Set(du, 0x7FC00000u), round(magnitude));
  return hn::BitCast(d, hn::Or(r, sign));
}

// Magnitudes without their last kBits, to nearest even: the carry out of the mantissa is the next
// binade.
template <int kBits, class DU, class V>
HWY_INLINE V RoundOff(DU du, V magnitude) {
  const auto odd = hn::And(hn::ShiftRight<kBits>(magnitude), hn::Set(du, 1u));
  const auto up = hn::Add(hn::Add(magnitude, hn::Set(du, (1u << (kBits - 1)) - 1)), odd);
  return hn::And(up, hn::Set(du, ~((1u << kBits) - 1)));
}

struct LoadToBf16 : Decoded {
  using Memory = float;
  uint32_t largest = 0;  // saturate: of the finite values; else infinity
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, const float* from) const {
    const hn::RebindToUnsigned<D> du;
    return LoadRounded(d, from, [&](auto magnitude) HWY_ATTR {
      return hn::Min(RoundOff<16>(du, magnitude), hn::Set(du, largest));
    });
  }
};

struct LoadToFp16 : Decoded {
  using Memory = float;
  uint32_t largest = 0;
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, const float* from) const {
    const hn::RebindToUnsigned<D> du;
    return LoadRounded(d, from, [&](auto magnitude) HWY_ATTR {
      auto r = RoundOff<13>(du, magnitude);
      // Above 65504 comes infinity in FP16.
      r = hn::IfThenElse(hn::Gt(r, hn::Set(du, 0x477FE000u)), hn::Set(du, largest), r);
      // Below 2^-14 the spacing is 2^-24: that of FP32 in [1/2, 1).
      const auto half = hn::Set(d, 0.5f);
      const auto small = hn::Sub(hn::Add(hn::BitCast(d, magnitude), half), half);
      return hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, 0x38800000u)), hn::BitCast(du, small), r);
    });
  }
};

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
