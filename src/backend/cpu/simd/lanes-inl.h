// Sixteen lanes: the vector every kernel of the cpu backend is written in.
//
// F16 is 16 FP32 values: one zmm on AVX-512, two ymm on AVX2, 16 scalars elsewhere; I16, U16 and
// D16 are the same of int32, uint32 and double. The same source gives the same bits on all of them:
// every function here is one IEEE operation per lane (or an exact one), Fma is fused everywhere,
// and sums over many elements go through the one fixed tree below, whatever the vector width.
//
// Include after foreach_target.h and inside no namespace; use within namespace
// ng::cpu::HWY_NAMESPACE between HWY_BEFORE_NAMESPACE() and HWY_AFTER_NAMESPACE().
//
// Min(a, b) is a < b ? a : b, Max(a, b) a > b ? a : b, as on x86: b with a NaN in either.
// Comparisons with NaN are false, except Ne.

// Per-target include guard
#if defined(NG_BACKEND_CPU_SIMD_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NG_BACKEND_CPU_SIMD_LANES_INL_H_
#undef NG_BACKEND_CPU_SIMD_LANES_INL_H_
#else
#define NG_BACKEND_CPU_SIMD_LANES_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "backend/cpu/simd/inline-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kLanes = 16;
/// All lanes, as a count that folds away code for a part of them.
using AllLanes = std::integral_constant<int64_t, kLanes>;

template <class T>
struct Lanes16 {
  using Tag = hn::CappedTag<T, kLanes>;
  static constexpr int kWidth = static_cast<int>(hn::MaxLanes(Tag()));  // of one register
  static constexpr int kParts = kLanes / kWidth;
  hn::Vec<Tag> part[kParts];
};
using F16 = Lanes16<float>;
using I16 = Lanes16<int32_t>;
using U16 = Lanes16<uint32_t>;
using D16 = Lanes16<double>;

/// A bool per lane, made by comparing Lanes16<T>.
template <class T>
struct Mask16 {
  hn::Mask<typename Lanes16<T>::Tag> part[Lanes16<T>::kParts];
};
using M16 = Mask16<float>;

// part[p] = f(p) for every register. Two without a loop: GCC 12 keeps them in memory that one
// indexes. Sixteen stay a loop: unrolled they take GCC twice the time to compile a kernel.
template <class Result, class F>
HWY_INLINE Result ForParts(const F& f) {
  constexpr size_t kParts = sizeof(Result::part) / sizeof(Result::part[0]);
  if constexpr (kParts == 2) return {{f(size_t{0}), f(size_t{1})}};
  Result r;
#if HWY_TARGET == HWY_SCALAR
  HWY_UNROLL(1)
#endif
  for (size_t p = 0; p < kParts; ++p) r.part[p] = f(p);
  return r;
}

// ---------------------------------------------------------------- memory

template <class T>
NG_VECTOR_INLINE Lanes16<T> Set16(T value) {
  return ForParts<Lanes16<T>>([=](size_t)
                                  HWY_ATTR { return hn::Set(typename Lanes16<T>::Tag(), value); });
}

template <class T = float>
NG_VECTOR_INLINE Lanes16<T> Zero16() {
  return ForParts<Lanes16<T>>([](size_t) HWY_ATTR { return hn::Zero(typename Lanes16<T>::Tag()); });
}

/// Sixteen values from any address.
template <class T>
NG_VECTOR_INLINE Lanes16<T> Load16(const T* from) {
  using L = Lanes16<T>;
  return ForParts<L>([=](size_t p)
                         HWY_ATTR { return hn::LoadU(typename L::Tag(), from + p * L::kWidth); });
}

/// Sixteen values of 16 bits, zeros before them.
template <class T>
NG_VECTOR_INLINE Lanes16<T> LoadHalves16(const uint16_t* from) {
  using L = Lanes16<T>;
  return ForParts<L>([=](size_t p) HWY_ATTR {
    const hn::Rebind<uint16_t, typename L::Tag> half;
    return hn::PromoteTo(typename L::Tag(), hn::LoadU(half, from + p * L::kWidth));
  });
}

/// The first `count` (0 ... 16) values; the other lanes are zero and their memory is not touched.
template <class T>
NG_VECTOR_INLINE Lanes16<T> Load16(const T* from, int64_t count) {
  using L = Lanes16<T>;
  const typename L::Tag d;
  return ForParts<L>([=](size_t p) HWY_ATTR {
    const int64_t left = count - static_cast<int64_t>(p) * L::kWidth;
    if (left >= L::kWidth) return hn::LoadU(d, from + p * L::kWidth);
    if (left <= 0) return hn::Zero(d);
    return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(left)), d, from + p * L::kWidth);
  });
}

template <class T>
NG_VECTOR_INLINE void Store16(const Lanes16<T>& v, T* to) {
  using L = Lanes16<T>;
  for (int p = 0; p < L::kParts; ++p) hn::StoreU(v.part[p], typename L::Tag(), to + p * L::kWidth);
}

/// Stores the first `count` (0 ... 16) lanes; the memory of the others is not touched.
template <class T>
NG_VECTOR_INLINE void Store16(const Lanes16<T>& v, T* to, int64_t count) {
  using L = Lanes16<T>;
  const typename L::Tag d;
  if (count >= kLanes) return Store16(v, to);
  for (int p = 0; p < L::kParts; ++p) {
    const int64_t left = count - p * L::kWidth;
    if (left >= L::kWidth) {
      hn::StoreU(v.part[p], d, to + p * L::kWidth);
    } else if (left > 0) {
      const auto mask = hn::FirstN(d, static_cast<size_t>(left));
      hn::BlendedStore(v.part[p], mask, d, to + p * L::kWidth);
    }
  }
}

/// As Load16, each value converted exactly to double.
NG_VECTOR_INLINE D16 LoadAsDouble16(const float* from) {
  return ForParts<D16>([=](size_t p) HWY_ATTR {
    const hn::Rebind<float, D16::Tag> half;
    return hn::PromoteTo(D16::Tag(), hn::LoadU(half, from + p * D16::kWidth));
  });
}

/// The same of lanes in registers: half of a part becomes one of doubles.
NG_VECTOR_INLINE D16 ToDouble(const F16& x) {
  return ForParts<D16>([&](size_t p) HWY_ATTR {
    const D16::Tag d;
#if HWY_TARGET == HWY_SCALAR
    return hn::PromoteTo(d, x.part[p]);
#else
    const hn::Rebind<float, D16::Tag> half;
    const auto& whole = x.part[p / 2];
    return hn::PromoteTo(d, p % 2 == 0 ? hn::LowerHalf(half, whole) : hn::UpperHalf(half, whole));
#endif
  });
}

// ---------------------------------------------------------------- arithmetic: one rounding each

#define NG_LANES_BINARY(Name)                                                             \
  template <class T>                                                                      \
  NG_VECTOR_INLINE Lanes16<T> Name(const Lanes16<T>& a, const Lanes16<T>& b) {            \
    return ForParts<Lanes16<T>>([&](size_t p)                                             \
                                    HWY_ATTR { return hn::Name(a.part[p], b.part[p]); }); \
  }
NG_LANES_BINARY(Add)
NG_LANES_BINARY(Sub)
NG_LANES_BINARY(Mul)
NG_LANES_BINARY(Div)
NG_LANES_BINARY(And)
NG_LANES_BINARY(Or)
NG_LANES_BINARY(Xor)
NG_LANES_BINARY(AndNot)  // ~a & b
#undef NG_LANES_BINARY

#define NG_LANES_COMPARE(Name)                                                                     \
  template <class T>                                                                               \
  NG_VECTOR_INLINE Mask16<T> Name(const Lanes16<T>& a, const Lanes16<T>& b) {                      \
    return ForParts<Mask16<T>>([&](size_t p) HWY_ATTR { return hn::Name(a.part[p], b.part[p]); }); \
  }
NG_LANES_COMPARE(Eq)
NG_LANES_COMPARE(Lt)
NG_LANES_COMPARE(Le)
NG_LANES_COMPARE(Gt)
NG_LANES_COMPARE(Ge)
#undef NG_LANES_COMPARE

/// True where either is NaN (Highway 1.0.3's own Ne is not).
template <class T>
NG_VECTOR_INLINE Mask16<T> Ne(const Lanes16<T>& a, const Lanes16<T>& b) {
  return ForParts<Mask16<T>>([&](size_t p)
                                 HWY_ATTR { return hn::Not(hn::Eq(a.part[p], b.part[p])); });
}

/// The same lanes as those of another 4-byte type.
template <class To, class From>
NG_VECTOR_INLINE Mask16<To> MaskAs(const Mask16<From>& a) {
  static_assert(sizeof(To) == sizeof(From));
  return ForParts<Mask16<To>>(
      [&](size_t p) HWY_ATTR { return hn::RebindMask(typename Lanes16<To>::Tag(), a.part[p]); });
}

/// !a && b
template <class T>
NG_VECTOR_INLINE Mask16<T> AndNot(const Mask16<T>& a, const Mask16<T>& b) {
  return ForParts<Mask16<T>>([&](size_t p) HWY_ATTR { return hn::AndNot(a.part[p], b.part[p]); });
}

/// mask ? yes : no
template <class T>
NG_VECTOR_INLINE Lanes16<T> Select(const Mask16<T>& mask, const Lanes16<T>& yes,
                                   const Lanes16<T>& no) {
  return ForParts<Lanes16<T>>(
      [&](size_t p) HWY_ATTR { return hn::IfThenElse(mask.part[p], yes.part[p], no.part[p]); });
}

template <class T>
NG_VECTOR_INLINE Lanes16<T> Min(const Lanes16<T>& a, const Lanes16<T>& b) {
#if HWY_TARGET == HWY_SCALAR
  return Select(Lt(a, b), a, b);
#else
  return ForParts<Lanes16<T>>([&](size_t p) HWY_ATTR { return hn::Min(a.part[p], b.part[p]); });
#endif
}

template <class T>
NG_VECTOR_INLINE Lanes16<T> Max(const Lanes16<T>& a, const Lanes16<T>& b) {
#if HWY_TARGET == HWY_SCALAR
  return Select(Gt(a, b), a, b);
#else
  return ForParts<Lanes16<T>>([&](size_t p) HWY_ATTR { return hn::Max(a.part[p], b.part[p]); });
#endif
}

/// a · b + c, rounded once.
template <class T>
NG_VECTOR_INLINE Lanes16<T> Fma(const Lanes16<T>& a, const Lanes16<T>& b, const Lanes16<T>& c) {
  return ForParts<Lanes16<T>>([&](size_t p) HWY_ATTR {
#if HWY_TARGET == HWY_SCALAR
    return hn::Set(
        typename Lanes16<T>::Tag(),
        std::fma(hn::GetLane(a.part[p]), hn::GetLane(b.part[p]), hn::GetLane(c.part[p])));
#else
    return hn::MulAdd(a.part[p], b.part[p], c.part[p]);
#endif
  });
}

template <class T>
NG_VECTOR_INLINE Lanes16<T> Sqrt(const Lanes16<T>& a) {
  return ForParts<Lanes16<T>>([&](size_t p) HWY_ATTR { return hn::Sqrt(a.part[p]); });
}

/// Clears the sign bit (of NaN too).
template <class T>
NG_VECTOR_INLINE Lanes16<T> Abs(const Lanes16<T>& a) {
  return ForParts<Lanes16<T>>([&](size_t p) HWY_ATTR { return hn::Abs(a.part[p]); });
}

/// Flips the sign bit (of NaN too).
NG_VECTOR_INLINE F16 Neg(const F16& a) { return Xor(a, Set16(-0.0f)); }

template <class T>
NG_VECTOR_INLINE bool AnyTrue(const Mask16<T>& mask) {
  bool any = false;
  for (int p = 0; p < Lanes16<T>::kParts; ++p)
    any |= !hn::AllFalse(typename Lanes16<T>::Tag(), mask.part[p]);
  return any;
}

template <class T>
NG_VECTOR_INLINE int CountTrue(const Mask16<T>& mask) {
  size_t count = 0;
  for (int p = 0; p < Lanes16<T>::kParts; ++p)
    count += hn::CountTrue(typename Lanes16<T>::Tag(), mask.part[p]);
  return static_cast<int>(count);
}

// ---------------------------------------------------------------- bits

/// The same bits as lanes of another 4-byte type: Bits<uint32_t>(f).
template <class To, class From>
NG_VECTOR_INLINE Lanes16<To> Bits(const Lanes16<From>& a) {
  static_assert(sizeof(To) == sizeof(From));
  return ForParts<Lanes16<To>>(
      [&](size_t p) HWY_ATTR { return hn::BitCast(typename Lanes16<To>::Tag(), a.part[p]); });
}

template <int kBits, class T>
NG_VECTOR_INLINE Lanes16<T> ShiftLeft(const Lanes16<T>& a) {
  return ForParts<Lanes16<T>>([&](size_t p) HWY_ATTR { return hn::ShiftLeft<kBits>(a.part[p]); });
}

/// Logical for U16, arithmetic for I16.
template <int kBits, class T>
NG_VECTOR_INLINE Lanes16<T> ShiftRight(const Lanes16<T>& a) {
  return ForParts<Lanes16<T>>([&](size_t p) HWY_ATTR { return hn::ShiftRight<kBits>(a.part[p]); });
}

/// Every lane by its own count; none are left of counts from 32 on.
NG_VECTOR_INLINE U16 ShiftLeftBy(const U16& a, const U16& counts) {
  return ForParts<U16>([&](size_t p) HWY_ATTR { return a.part[p] << counts.part[p]; });
}

/// int32 -> FP32, nearest even.
NG_VECTOR_INLINE F16 ToFloat(const I16& a) {
  return ForParts<F16>([&](size_t p) HWY_ATTR { return hn::ConvertTo(F16::Tag(), a.part[p]); });
}

// ---------------------------------------------------------------- folding lanes

/// Lane l += lane l + 8, then + 4, + 2, + 1; lane 0. [recipes.md §0]
template <class T>
NG_VECTOR_INLINE T FoldLanes(const Lanes16<T>& sum) {
  alignas(64) T lane[kLanes];
  Store16(sum, lane);
  for (int width = kLanes / 2; width >= 1; width /= 2)
    for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
  return lane[0];
}

#if HWY_TARGET != HWY_SCALAR
NG_VECTOR_INLINE float FoldLanes(const F16& sum) {
  const hn::FixedTag<float, 8> d8;
  const hn::FixedTag<float, 4> d4;
#if HWY_TARGET == HWY_AVX2
  const auto by8 = hn::Add(sum.part[0], sum.part[1]);
#else
  const auto by8 = hn::Add(hn::LowerHalf(d8, sum.part[0]), hn::UpperHalf(d8, sum.part[0]));
#endif
  const auto by4 = hn::Add(hn::LowerHalf(d4, by8), hn::UpperHalf(d4, by8));
  const auto by2 = hn::Add(by4, hn::Shuffle1032(by4));
  return hn::GetLane(hn::Add(by2, hn::Shuffle2301(by2)));
}
#endif

/// The largest lane; NaN if any lane is NaN.
NG_VECTOR_INLINE float MaxLane(const F16& v) {
  if (AnyTrue(Ne(v, v))) return std::numeric_limits<float>::quiet_NaN();
  alignas(64) float lane[kLanes];
  Store16(v, lane);
  return *std::max_element(lane, lane + kLanes);
}

// ---------------------------------------------------------------- the fixed tree

/// Elements of one chunk of the tree.
constexpr int64_t kTreeChunk = 4096;

/// Adds chunk sums as they come in chunk order: pairs, pairs of pairs, ...; a last odd one moves up
/// alone. [recipes.md §0]
template <class T>
class ChunkTree {
 public:
  HWY_INLINE void Push(T chunk) {
    for (uint64_t n = count_++; (n & 1) != 0; n >>= 1) chunk = level_[--depth_] + chunk;
    level_[depth_++] = chunk;
  }
  /// 0 where nothing was pushed.
  HWY_INLINE T Sum() const {
    if (depth_ == 0) return T{0};
    T sum = level_[depth_ - 1];
    for (int d = depth_ - 2; d >= 0; --d) sum = level_[d] + sum;
    return sum;
  }

 private:
  T level_[64];
  int depth_ = 0;
  uint64_t count_ = 0;
};

/// Sum of `count` elements by the 16-lane tree. element(i, left) returns elements i ... i + 15 as
/// lanes, zero from lane `left` on (i a multiple of 16; left is AllLanes except in the last,
/// partial step).
template <class T = float, class F>
HWY_INLINE T TreeSum(int64_t count, const F& element) {
  ChunkTree<T> tree;
  for (int64_t chunk = 0; chunk < count; chunk += kTreeChunk) {
    const int64_t end = std::min(count, chunk + kTreeChunk);
    Lanes16<T> sum = Zero16<T>();
    int64_t i = chunk;
    for (; i + kLanes <= end; i += kLanes) sum = Add(sum, element(i, AllLanes()));
    if (i < end) sum = Add(sum, element(i, end - i));
    tree.Push(FoldLanes(sum));
  }
  return tree.Sum();
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
