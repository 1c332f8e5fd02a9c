// Chunks of stored values to FP32 and back, in registers. Include like lanes-inl.h.

// Per-target include guard
#if defined(NG_BACKEND_CPU_UPDATE_CHUNK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NG_BACKEND_CPU_UPDATE_CHUNK_INL_H_
#undef NG_BACKEND_CPU_UPDATE_CHUNK_INL_H_
#else
#define NG_BACKEND_CPU_UPDATE_CHUNK_INL_H_
#endif

#include "backend/cpu/quantize/element-inl.h"
#include "backend/cpu/simd/bf16-inl.h"
#include "backend/cpu/update/chunks.h"
#include "format/scale.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

using Stored16 = ChunkTensor::Kind;

HWY_INLINE I16 LoadBytes16(const int8_t* from) {
  return ForParts<I16>([&](size_t p) HWY_ATTR {
    const hn::Rebind<int8_t, I16::Tag> narrow;
    return hn::PromoteTo(I16::Tag(), hn::LoadU(narrow, from + p * I16::kWidth));
  });
}

HWY_INLINE void StoreUpperHalves(U16 v, uint16_t* to) {
#if HWY_TARGET == HWY_AVX3
  const hn::ScalableTag<uint16_t> d;
  const auto halves = hn::BitCast(d, v.part[0]);
  const hn::Half<decltype(d)> half;
  hn::StoreU(hn::LowerHalf(half, hn::ConcatOdd(d, halves, halves)), half, to);
#else
  StoreLow(ShiftRight<16>(v), to, kLanes);
#endif
}

// ---------------------------------------------------------------- E4M3

/// The element of sixteen codes. Where the field is 0, the hidden bit is taken off.
HWY_INLINE F16 LoadAnyE4m3(const std::byte* from) {
  const I16 code = LoadBytes16(reinterpret_cast<const int8_t*>(from));  // the sign spreads
  const I16 magnitude = And(code, Set16(0x7F));
  const I16 normal = Add(ShiftLeft<20>(magnitude), Set16(120 << 23));
  const F16 subnormal = Sub(Bits<float>(Add(normal, Set16(1 << 23))), Set16(0x1p-6f));
  I16 bits = Select(Gt(magnitude, Set16(7)), normal, Bits<int32_t>(subnormal));
  bits = Select(Eq(magnitude, Set16(0x7F)), Set16(0x7FC00000), bits);
  return Bits<float>(Or(bits, And(code, Set16(static_cast<int32_t>(0x80000000u)))));
}

/// The same: FP16 has a bit more in the field, one of 8 more for the bias, and its zeros and
/// subnormals in the same places.
HWY_INLINE F16 LoadE4m3(const std::byte* from) {
#if HWY_TARGET == HWY_SCALAR
  return LoadAnyE4m3(from);
#else
  bool has_nan = false;
  const F16 parts = ForParts<F16>([&](size_t p) HWY_ATTR {
    const hn::Rebind<int8_t, F16::Tag> bytes;
    const hn::Rebind<int16_t, F16::Tag> words;
    const hn::Rebind<hwy::float16_t, F16::Tag> halves;
    const auto code = hn::LoadU(bytes, reinterpret_cast<const int8_t*>(from) + p * F16::kWidth);
    const auto moved = hn::ShiftLeft<7>(hn::PromoteTo(words, code));  // the sign is there twice
    const auto largest = hn::Set(words, int16_t{0x3F80});
    has_nan |= !hn::AllFalse(words, hn::Eq(hn::And(moved, largest), largest));
    const auto half = hn::AndNot(hn::Set(words, int16_t{0x4000}), moved);
    return hn::PromoteTo(F16::Tag(), hn::BitCast(halves, half));
  });
  F16 element = Mul(parts, Set16(256.0f));
  if (HWY_UNLIKELY(has_nan)) element = LoadAnyE4m3(from);
  return element;
#endif
}

/// Codes of elements.
HWY_INLINE void StoreE4m3(F16 element, std::byte* to) {
  const I16 bits = Bits<int32_t>(Abs(element));
  const I16 least = Set16(static_cast<int32_t>(float_bits(0x1p-6f)));
  const I16 hidden = Sub(Bits<int32_t>(Add(Bits<float>(bits), Bits<float>(least))), Set16(1 << 23));
  const I16 magnitude = Sub(ShiftRight<20>(Select(Lt(bits, least), hidden, bits)), Set16(120 << 3));
  const U16 sign = And(ShiftRight<24>(Bits<uint32_t>(element)), Set16(0x80u));
  StoreLow(Or(Bits<uint32_t>(magnitude), sign), reinterpret_cast<uint8_t*>(to), kLanes);
}

/// Codes of values, or of the first `left`, as RoundElement rounds them. A value is n spacings of
/// its binade 2^e, and n counts codes from that of 2^e - 8 spacings on; n is what the magic number
/// leaves in the lowest bits, or what a draw carries into.
template <bool kStochastic>
HWY_INLINE void StoreAsE4m3(const Rules& k, F16 y, U16 draw, std::byte* to, int64_t left = kLanes) {
  const F16 magnitude = Bits<float>(Min(Bits<int32_t>(Abs(y)), k.clip));
  const U16 binade = Bits<uint32_t>(Binade(k, magnitude));
  U16 n;
  if constexpr (kStochastic) {
    const F16 per_spacing = Bits<float>(Sub(k.to_integer, binade));
    n = ShiftRight<16>(Add(Bits<uint32_t>(Truncate(Mul(magnitude, per_spacing))), draw));
  } else {
    const U16 magic = Add(binade, Set16((20u << 23) | 0x400000u));  // 1.5 · 2^23 spacings
    n = Sub(Bits<uint32_t>(Add(magnitude, Bits<float>(magic))), magic);
  }
  const U16 code = Add(n, Sub(ShiftRight<20>(binade), Set16(121u << 3)));
  const U16 sign = And(ShiftRight<24>(Bits<uint32_t>(y)), Set16(0x80u));
  StoreLow(Or(code, sign), reinterpret_cast<uint8_t*>(to), left);
}

// ---------------------------------------------------------------- FP16

#if HWY_TARGET == HWY_SCALAR
constexpr FloatGrid kFp16Grid = {.mantissa_bits = 10,
                                 .bias = 15,
                                 .max_code = 0x7BFF,
                                 .inf_code = 0x7C00,
                                 .nan_code = 0x7E00,
                                 .sign_mask = 0x8000};
#endif

HWY_INLINE F16 LoadFp16(const std::byte* from) {
#if HWY_TARGET == HWY_SCALAR
  alignas(64) float lane[kLanes];
  for (int i = 0; i < kLanes; ++i)
    lane[i] = decode_float(kFp16Grid, reinterpret_cast<const uint16_t*>(from)[i]);
  return Load16(lane);
#else
  return ForParts<F16>([&](size_t p) HWY_ATTR {
    const hn::Rebind<hwy::float16_t, F16::Tag> half;
    const auto* codes = reinterpret_cast<const hwy::float16_t*>(from) + p * F16::kWidth;
    return hn::PromoteTo(F16::Tag(), hn::LoadU(half, codes));
  });
#endif
}

/// Codes of finite values within FP16's range, nearest even; returns what they stand for.
HWY_INLINE F16 StoreFp16(F16 y, std::byte* to) {
#if HWY_TARGET == HWY_SCALAR
  alignas(64) float lane[kLanes];
  Store16(y, lane);
  for (int i = 0; i < kLanes; ++i)
    reinterpret_cast<uint16_t*>(to)[i] =
        static_cast<uint16_t>(encode_float(kFp16Grid, lane[i], {}, OverflowRule::saturate));
  return LoadFp16(to);
#else
  return ForParts<F16>([&](size_t p) HWY_ATTR {
    const hn::Rebind<hwy::float16_t, F16::Tag> half;
    const auto code = hn::DemoteTo(half, y.part[p]);
    hn::StoreU(code, half, reinterpret_cast<hwy::float16_t*>(to) + p * F16::kWidth);
    return hn::PromoteTo(F16::Tag(), code);
  });
#endif
}

/// Within ±limit; NaN becomes the limit, as in RoundElement.
HWY_INLINE F16 Clipped(F16 y, I16 limit) {
  const I16 magnitude = Min(Bits<int32_t>(Abs(y)), limit);
  return Bits<float>(Or(Bits<uint32_t>(magnitude), And(Bits<uint32_t>(y), Set16(0x80000000u))));
}

// ---------------------------------------------------------------- any kind

/// As RoundElement, of which BF16 takes less where nothing comes near its largest value.
template <Stored16 kKind, bool kStochastic>
HWY_INLINE F16 RoundTo(const Rules& rules, F16 y, U16 draw) {
  if constexpr (kKind == Stored16::bf16) {
    const U16 bits = Bits<uint32_t>(y);
    U16 rounded;
    if constexpr (kStochastic)
      rounded = Add(bits, draw);
    else
      rounded = Add(bits, HalfUp(bits));
    F16 element = Bits<float>(And(rounded, Set16(0xFFFF0000u)));
    if (HWY_UNLIKELY(AnyTrue(Gt(Bits<int32_t>(Abs(y)), Set16(0x7F7EFFFF)))))
      element =
          RoundElement<Variant{Kind::bf16, kStochastic, true, ElementForm::bf16}>(rules, y, draw);
    return element;
  } else {
    return RoundElement<Variant{Kind::small, kStochastic, true, ElementForm::bf16}>(rules, y, draw);
  }
}

template <Stored16 kKind>
HWY_INLINE void PutElement(F16 element, std::byte* data, int64_t i) {
  if constexpr (kKind == Stored16::bf16)
    StoreUpperHalves(Bits<uint32_t>(element), reinterpret_cast<uint16_t*>(data) + i);
  else
    StoreE4m3(element, data + i);
}

HWY_INLINE Rules RoundingOf(const ChunkTensor& t) { return RulesOf(t.grid, EncodeTile{}); }

HWY_INLINE void DrawChunk(const ChunkTensor& t, int64_t at, uint16_t* draws) {
  draw_rows(t.key, {.group = static_cast<uint64_t>(at / 8), .groups = kChunk / 8}, draws, 0);
}

/// Values [at, at + kChunk): in place where they are FP32, else in `buffer`.
inline HWY_NOINLINE const float* ReadChunk(const ChunkTensor& t, int64_t at, float* buffer) {
  switch (t.kind) {
    case Stored16::fp32:
      return reinterpret_cast<const float*>(t.data) + at;
    case Stored16::bf16: {
      const auto* from = reinterpret_cast<const Bf16*>(t.data) + at;
      for (int64_t i = 0; i < kChunk; i += kLanes) Store16(Load16(from + i), buffer + i);
      break;
    }
    case Stored16::fp16: {
      const F16 scale = Set16(t.decode);
      for (int64_t i = 0; i < kChunk; i += kLanes)
        Store16(Mul(LoadFp16(t.data + 2 * (at + i)), scale), buffer + i);
      break;
    }
    default: {
      const int64_t block = t.block > 0 ? t.block : kChunk;
      for (int64_t first = 0; first < kChunk; first += block) {
        const F16 scale = Set16(t.block > 0 ? t.scales[(at + first) / block] : t.decode);
        for (int64_t i = first; i < first + block; i += kLanes)
          Store16(Mul(LoadE4m3(t.data + at + i), scale), buffer + i);
      }
    }
  }
  return buffer;
}

template <Stored16 kKind, bool kStochastic>
HWY_INLINE void PutRun(const Rules& rules, std::byte* data, int64_t at, int64_t count,
                       const float* values, float encode, const uint16_t* draws) {
  const F16 scale = Set16(encode);
  for (int64_t i = 0; i < count; i += kLanes) {
    const U16 draw = kStochastic ? LoadHalves16<uint32_t>(draws + i) : Zero16<uint32_t>();
    const F16 y = Mul(Load16(values + i), scale);
    if constexpr (kKind == Stored16::e4m3)
      StoreAsE4m3<kStochastic>(rules, y, draw, data + at + i);
    else
      PutElement<kKind>(RoundTo<kKind, kStochastic>(rules, y, draw), data, at + i);
  }
}

/// Blocks of a chunk, each with the scale of its largest value.
template <bool kStochastic>
HWY_INLINE void PutBlocks(const Rules& rules, const ChunkTensor& t, int64_t at, const float* values,
                          const uint16_t* draws) {
  for (int64_t first = 0; first < kChunk; first += t.block) {
    I16 largest = Zero16<int32_t>();
    for (int64_t i = first; i < first + t.block; i += kLanes)
      largest = Max(largest, Bits<int32_t>(Abs(Load16(values + i))));
    alignas(64) int32_t lane[kLanes];
    Store16(largest, lane);
    const int32_t amax = *std::max_element(lane, lane + kLanes);
    const float encode =
        encode_scale_of(float_of_bits(static_cast<uint32_t>(amax)), t.grid.max, t.has_powers);
    t.scales[(at + first) / t.block] = 1.0f / encode;
    PutRun<Stored16::e4m3, kStochastic>(rules, t.data, at + first, t.block, values + first, encode,
                                        draws + first);
  }
}

template <bool kStochastic>
HWY_INLINE void PutChunkOf(const ChunkTensor& t, int64_t at, const float* values,
                           const uint16_t* draws) {
  const Rules rules = RoundingOf(t);
  if (t.kind == Stored16::bf16)
    return PutRun<Stored16::bf16, kStochastic>(rules, t.data, at, kChunk, values, 1, draws);
  if (t.block > 0) return PutBlocks<kStochastic>(rules, t, at, values, draws);
  PutRun<Stored16::e4m3, kStochastic>(rules, t.data, at, kChunk, values, t.encode, draws);
}

/// Rounds and stores what is not stored as FP32, where it lies already.
inline HWY_NOINLINE void PutChunk(const ChunkTensor& t, int64_t at, const float* values,
                                  uint16_t* draws) {
  if (t.kind == Stored16::fp32) return;
  if (t.kind == Stored16::fp16) {
    const F16 scale = Set16(t.encode);
    const I16 limit = SetBits(t.grid.clip);
    for (int64_t i = 0; i < kChunk; i += kLanes)
      (void)StoreFp16(Clipped(Mul(Load16(values + i), scale), limit), t.data + 2 * (at + i));
    return;
  }
  if (!t.is_stochastic) return PutChunkOf<false>(t, at, values, draws);
  DrawChunk(t, at, draws);
  PutChunkOf<true>(t, at, values, draws);
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
