// Loaders of panels: lanes of FP32, or of pairs of BF16 patterns or of int16, from lanes of what
// memory holds.
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
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct LoadFp32 {
  using Memory = float;
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, const float* from) const {
    return hn::LoadU(d, from);
  }
};

struct LoadBf16Bits {
  using Memory = uint16_t;
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, const uint16_t* from) const {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::PromoteTo(du, hn::LoadU(hn::Rebind<uint16_t, D>(), from));
    return hn::BitCast(d, hn::ShiftLeft<16>(bits));
  }
};

struct LoadInt8 {
  using Memory = int8_t;
  float unit = 1;
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, const int8_t* from) const {
    const hn::RebindToSigned<D> di;
    const auto integers = hn::PromoteTo(di, hn::LoadU(hn::Rebind<int8_t, D>(), from));
    return hn::Mul(hn::ConvertTo(d, integers), hn::Set(d, unit));
  }
};

// Values as round(magnitude's bits) makes them, with their signs; NaN stays NaN.
template <class D, class Round>
HWY_INLINE hn::Vec<D> Rounded(D d, hn::Vec<D> values, const Round& round) {
  const hn::RebindToUnsigned<D> du;
  const auto u = hn::BitCast(du, values);
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

// What `Load` gives as BF16; of BF16 only what saturates.
template <class Load>
struct LoadToBf16 {
  using Memory = typename Load::Memory;
  uint32_t largest = 0;  // saturate: of the finite values; else infinity
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, const Memory* from) const {
    return Round(d, Load()(d, from));
  }
  template <class D>
  HWY_INLINE hn::Vec<D> Round(D d, hn::Vec<D> values) const {
    const hn::RebindToUnsigned<D> du;
    return Rounded(d, values, [&](auto magnitude) HWY_ATTR {
      return hn::Min(RoundOff<16>(du, magnitude), hn::Set(du, largest));
    });
  }
};

template <class Load>
struct LoadToFp16 {
  using Memory = typename Load::Memory;
  uint32_t largest = 0;
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, const Memory* from) const {
    const hn::RebindToUnsigned<D> du;
    return Rounded(d, Load()(d, from), [&](auto magnitude) HWY_ATTR {
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

// The bits of two BF16 values along K, the first in the high half. `Load` gives values of BF16.
template <class Load>
struct LoadBf16Pairs {
  using Memory = typename Load::Memory;
  Load load;

  // (first[i], second[i])
  template <class D>
  HWY_INLINE hn::Vec<D> Join(D d, const Memory* first, const Memory* second) const {
    return Joined(d, load(d, first), load(d, second));
  }
#if HWY_TARGET != HWY_SCALAR
  // (from[2i], from[2i + 1])
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, const uint16_t* from) const {
    const hn::RebindToUnsigned<D> du;
    const auto words = hn::LoadU(du, reinterpret_cast<const uint32_t*>(from));
    if constexpr (std::is_same_v<Load, LoadBf16Bits>) {
      return hn::BitCast(d, hn::RotateRight<16>(words));
    } else {
      const auto first = load.Round(d, hn::BitCast(d, hn::ShiftLeft<16>(words)));
      const auto second = hn::BitCast(d, hn::And(words, hn::Set(du, 0xFFFF0000u)));
      return Joined(d, first, load.Round(d, second));
    }
  }
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, const float* from) const {
    const auto low = load(d, from), high = load(d, from + hn::Lanes(d));
    return Joined(d, hn::ConcatEven(d, high, low), hn::ConcatOdd(d, high, low));
  }
#endif

 private:
  template <class D>
  static HWY_INLINE hn::Vec<D> Joined(D d, hn::Vec<D> first, hn::Vec<D> second) {
    const hn::RebindToUnsigned<D> du;
    const auto low = hn::ShiftRight<16>(hn::BitCast(du, second));
    return hn::BitCast(d, hn::Or(hn::BitCast(du, first), low));
  }
};

// Two values along K, BF16 patterns of multiples of a unit, as int16, the first in the low half.
struct LoadInt16Pairs {
  using Memory = uint16_t;
  float per_unit = 1;

  // (first[i], second[i])
  template <class D>
  HWY_INLINE hn::Vec<D> Join(D d, const uint16_t* first, const uint16_t* second) const {
    const LoadBf16Bits load;
    return Joined(d, load(d, first), load(d, second));
  }
#if HWY_TARGET != HWY_SCALAR
  // (from[2i], from[2i + 1])
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, const uint16_t* from) const {
    const hn::RebindToUnsigned<D> du;
    const auto words = hn::LoadU(du, reinterpret_cast<const uint32_t*>(from));
    const auto second = hn::And(words, hn::Set(du, 0xFFFF0000u));
    return Joined(d, hn::BitCast(d, hn::ShiftLeft<16>(words)), hn::BitCast(d, second));
  }
#endif

 private:
  template <class D>
  HWY_INLINE hn::Vec<D> Joined(D d, hn::Vec<D> first, hn::Vec<D> second) const {
    const hn::RebindToSigned<D> di;
    const auto scale = hn::Set(d, per_unit);
    const auto low = hn::And(hn::ConvertTo(di, hn::Mul(first, scale)), hn::Set(di, 0xFFFF));
    const auto high = hn::ShiftLeft<16>(hn::ConvertTo(di, hn::Mul(second, scale)));
    return hn::BitCast(d, hn::Or(low, high));
  }
};

// Values along K of one element.
template <class Load>
constexpr int64_t kValuesOf = 1;
template <class Load>
constexpr int64_t kValuesOf<LoadBf16Pairs<Load>> = 2;
template <>
constexpr int64_t kValuesOf<LoadInt16Pairs> = 2;

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
