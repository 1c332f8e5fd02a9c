// Looking lanes up in tables of sixteen, and searching sorted ones. Include like lanes-inl.h.

// Per-target include guard
#if defined(NG_BACKEND_CPU_SIMD_TABLE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NG_BACKEND_CPU_SIMD_TABLE_INL_H_
#undef NG_BACKEND_CPU_SIMD_TABLE_INL_H_
#else
#define NG_BACKEND_CPU_SIMD_TABLE_INL_H_
#endif

#include <bit>

#include "backend/cpu/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

/// table[index] of every lane; indices are below 16. Of a table of FP32 numbers their bits.
template <class T>
HWY_INLINE I16 LookUp16(const T* table, const I16& index) {
#if HWY_TARGET == HWY_AVX3
  const I16::Tag d;
  const I16 all = Bits<int32_t>(Load16(table));
  return {{hn::TableLookupLanes(all.part[0], hn::IndicesFromVec(d, index.part[0]))}};
#elif HWY_TARGET == HWY_AVX2
  const I16 all = Bits<int32_t>(Load16(table));
  return ForParts<I16>([&](size_t p) HWY_ATTR {
    const I16::Tag d;
    const auto low = hn::IndicesFromVec(d, hn::And(index.part[p], hn::Set(d, 7)));
    return hn::IfThenElse(hn::Gt(index.part[p], hn::Set(d, 7)),
                          hn::TableLookupLanes(all.part[1], low),
                          hn::TableLookupLanes(all.part[0], low));
  });
#else
  return ForParts<I16>([&](size_t p) HWY_ATTR {
    return hn::Set(I16::Tag(), std::bit_cast<int32_t>(table[hn::GetLane(index.part[p])]));
  });
#endif
}

/// Of kCount tables, kUnit apart: that of sub / kUnit, looked up at index.
template <int kCount, int kUnit, class T>
HWY_INLINE I16 LookUpIn(const T (*tables)[kLanes], const I16& sub, const I16& index) {
  if constexpr (kCount == 1) {
    return LookUp16(tables[0], index);
  } else {
    constexpr int kHalf = kCount / 2;
    return Select(Gt(And(sub, Set16(kHalf * kUnit)), Zero16<int32_t>()),
                  LookUpIn<kHalf, kUnit>(tables + kHalf * kUnit, sub, index),
                  LookUpIn<kHalf, kUnit>(tables, sub, index));
  }
}

/// `at` + kStep where `limit` is below x.
template <int kStep>
HWY_INLINE I16 Advance(const I16& at, const I16& limit, const I16& x) {
  return Add(at, Select(Lt(limit, x), Set16(kStep), Zero16<int32_t>()));
}

/// Steps kStep, kStep / 2 ... 1 within the groups of kSub numbers that `group` says.
template <int kSub, int kStep, class T>
HWY_INLINE I16 CountInGroup(const T (*tables)[kLanes], const I16& group, const I16& x,
                            const I16& sub) {
  if constexpr (kStep == 0) {
    return sub;
  } else {
    const I16 limit = LookUpIn<kSub / (2 * kStep), 2 * kStep>(tables + kStep - 1, sub, group);
    return CountInGroup<kSub, kStep / 2>(tables, group, x, Advance<kStep>(sub, limit, x));
  }
}

/// How many of 16 · kSub - 1 ascending numbers are below x, which is compared with the bits of
/// those of FP32. tables[s][g] is the one at kSub · g + s.
template <int kSub, class T>
HWY_INLINE I16 CountBelow(const T (*tables)[kLanes], const I16& x) {
  const T* last = tables[kSub - 1];
  I16 group = Advance<8>(Zero16<int32_t>(), Set16(std::bit_cast<int32_t>(last[7])), x);
  group = Advance<4>(group, LookUp16(last, Add(group, Set16(3))), x);
  group = Advance<2>(group, LookUp16(last, Add(group, Set16(1))), x);
  group = Advance<1>(group, LookUp16(last, group), x);
  const I16 sub = CountInGroup<kSub, kSub / 2>(tables, group, x, Zero16<int32_t>());
  return Add(ShiftLeft<std::countr_zero(unsigned{kSub})>(group), sub);
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
