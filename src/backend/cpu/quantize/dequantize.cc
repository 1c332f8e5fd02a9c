// Codes to FP32, sixteen at a time, by the arithmetic of their fields: a table takes a load for
// every element, which one lane at a time is the faster way, and gathers are no better.
// [formats.md §1.1, §6]
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/quantize/dequantize.cc"
#include <hwy/foreach_target.h>  // once per instruction set
#include <hwy/highway.h>

#include "backend/cpu/quantize/dequantize.h"
#include "backend/cpu/simd/inline-inl.h"
#include "backend/cpu/simd/lanes-inl.h"
#include "base/error.h"
#include "base/isa.h"
#include "format/codec.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

HWY_INLINE I16 ShiftLeftBy(I16 a, int bits) {
  return ForParts<I16>([&](size_t p) HWY_ATTR { return hn::ShiftLeftSame(a.part[p], bits); });
}

// Decoders of sixteen codes. ----------------------------------------------------------------------

// A field of 0 has no hidden bit: with the field 1 instead, the hidden bit is there to be taken
// off.
template <Specials kSpecials>
struct FloatingCodes {
  explicit HWY_INLINE FloatingCodes(const CodeDecoder& d)
      : shift(23 - d.mantissa_bits),
        sign_shift(0),
        sign_mask(Set16(static_cast<int32_t>(d.sign_mask))),
        magnitude_mask(Set16(static_cast<int32_t>(d.magnitude_mask))),
        least_normal(Set16((1 << d.mantissa_bits) - 1)),
        rebias(Set16((127 - d.bias) * (1 << 23))),
        hidden(Bits<float>(Set16((128 - d.bias) * (1 << 23)))),
        max_code(Set16(static_cast<int32_t>(d.max_code))),
        inf_code(Set16(static_cast<int32_t>(d.inf_code))) {
    while (d.sign_mask != 0 && (d.sign_mask << sign_shift) != 0x80000000u) ++sign_shift;
  }

  NG_VECTOR_INLINE F16 operator()(const uint16_t* codes) const {
    const I16 code = LoadHalves16<int32_t>(codes);
    const I16 magnitude = And(code, magnitude_mask);
    const I16 normal = Add(ShiftLeftBy(magnitude, shift), rebias);
    const I16 one_up = Add(normal, Set16(1 << 23));
    const F16 subnormal = Sub(Bits<float>(one_up), hidden);
    I16 bits = Select(Gt(magnitude, least_normal), normal, Bits<int32_t>(subnormal));
    const I16 nan = Set16(0x7FC00000);
    if constexpr (kSpecials == Specials::ieee || kSpecials == Specials::fn)
      bits = Select(Gt(magnitude, max_code), nan, bits);
    if constexpr (kSpecials == Specials::ieee)
      bits = Select(Eq(magnitude, inf_code), Set16(0x7F800000), bits);
    if constexpr (kSpecials == Specials::fnuz)  // the code of -0
      bits = Select(Eq(code, sign_mask), nan, bits);
    return Bits<float>(Or(bits, ShiftLeftBy(And(code, sign_mask), sign_shift)));
  }

  int shift, sign_shift;
  I16 sign_mask, magnitude_mask, least_normal, rebias;
  F16 hidden;
  I16 max_code, inf_code;
};

struct IntegerCodes {
  explicit HWY_INLINE IntegerCodes(const CodeDecoder& d)
      : sign(Set16(static_cast<int32_t>(d.sign_mask))),
        step(Set16(1.0f / static_cast<float>(1 << d.mantissa_bits))) {}

  NG_VECTOR_INLINE F16 operator()(const uint16_t* codes) const {
    return Mul(ToFloat(Sub(Xor(LoadHalves16<int32_t>(codes), sign), sign)), step);
  }

  I16 sign;
  F16 step;
};

struct TableCodes {
  explicit HWY_INLINE TableCodes(const CodeDecoder& d) : table(d.table.data()) {}

  NG_VECTOR_INLINE F16 operator()(const uint16_t* codes) const {
    alignas(64) float value[kLanes];
    for (int i = 0; i < kLanes; ++i) value[i] = table[codes[i]];
    return Load16(value);
  }

  const float* table;
};

// Rows. -------------------------------------------------------------------------------------------

// What is done with the elements of a run: columns i ... i + left - 1 of it.
struct Unscaled {
  HWY_INLINE F16 operator()(F16 element, int64_t, int64_t) const { return element; }
};

struct Scaled {
  F16 scale, tensor;
  HWY_INLINE F16 operator()(F16 element, int64_t, int64_t) const {
    return Mul(Mul(element, scale), tensor);
  }
};

struct Affine {
  F16 zero, scale;
  HWY_INLINE F16 operator()(F16 element, int64_t, int64_t) const {
    return Mul(Sub(element, zero), scale);
  }
};

struct ScaledByColumn {
  const float* scales;
  F16 tensor;
  HWY_INLINE F16 operator()(F16 element, int64_t i, int64_t left) const {
    return Mul(Mul(element, Load16(scales + i, left)), tensor);
  }
};

struct AffineByColumn {
  const CodedRow& row;
  HWY_INLINE F16 operator()(F16 element, int64_t i, int64_t left) const {
    alignas(64) float zeros[kLanes] = {};
    std::copy(row.zeros + i, row.zeros + i + left, zeros);
    const F16 zero = Load16(zeros), one = Set16(1.0f);
    const F16 tensor = Select(Eq(zero, Zero16()), Set16(row.tensor_scale), one);
    return Mul(Mul(Sub(element, zero), Load16(row.scales + i, left)), tensor);
  }
};

// to[i] = finish(decode(codes[i]))
template <class Decode, class Finish>
HWY_INLINE void DequantizeRun(const Decode& decode, const uint16_t* codes, int64_t count, float* to,
                              const Finish& finish) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    Store16(finish(decode(codes + i), i, int64_t{kLanes}), to + i);
  if (i == count) return;
  uint16_t last[kLanes] = {};
  std::copy(codes + i, codes + count, last);
  Store16(finish(decode(last), i, count - i), to + i, count - i);
}

template <class Decode>
HWY_INLINE void DequantizeBlocks(const Decode& decode, const CodedRow& row, float* values) {
  const F16 tensor = Set16(row.tensor_scale);
  for (int64_t first = 0, b = 0; first < row.cols; first += row.block, ++b) {
    const int64_t count = std::min(row.block, row.cols - first);
    const uint8_t zero = row.zeros != nullptr ? row.zeros[b] : 0;
    const F16 scale = Set16(row.scales[b]);
    if (zero != 0) {
      const Affine affine = {Set16(static_cast<float>(zero)), scale};
      DequantizeRun(decode, row.codes + first, count, values + first, affine);
    } else {
      DequantizeRun(decode, row.codes + first, count, values + first, Scaled{scale, tensor});
    }
  }
}

template <class Decode>
HWY_NOINLINE void DequantizeBy(const Decode& decode, const CodedRow& row, float* values) {
  if (row.scales == nullptr)
    DequantizeRun(decode, row.codes, row.cols, values, Unscaled());
  else if (row.block > 1)
    DequantizeBlocks(decode, row, values);
  else if (row.zeros != nullptr)
    DequantizeRun(decode, row.codes, row.cols, values, AffineByColumn{row});
  else
    DequantizeRun(decode, row.codes, row.cols, values,
                  ScaledByColumn{row.scales, Set16(row.tensor_scale)});
}

void DequantizeFloating(const CodeDecoder& decoder, const CodedRow& row, float* values) {
  switch (decoder.specials) {
    case Specials::ieee:
      return DequantizeBy(FloatingCodes<Specials::ieee>(decoder), row, values);
    case Specials::fn:
      return DequantizeBy(FloatingCodes<Specials::fn>(decoder), row, values);
    case Specials::fnuz:
      return DequantizeBy(FloatingCodes<Specials::fnuz>(decoder), row, values);
    default:
      return DequantizeBy(FloatingCodes<Specials::none>(decoder), row, values);
  }
}

void DequantizeRow(const CodeDecoder& decoder, const CodedRow& row, float* values) {
#if HWY_TARGET == HWY_SCALAR
  if (!decoder.table.empty()) return DequantizeBy(TableCodes(decoder), row, values);
#endif
  switch (decoder.kind) {
    case CodeDecoder::Kind::floating:
      return DequantizeFloating(decoder, row, values);
    case CodeDecoder::Kind::integer:
      return DequantizeBy(IntegerCodes(decoder), row, values);
    default:
      return DequantizeBy(TableCodes(decoder), row, values);
  }
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
namespace {

HWY_EXPORT(DequantizeRow);

}  // namespace

CodeDecoder code_decoder(const ElementFormat& element) {
  NG_CHECK(element.bits <= 16, element.name);
  CodeDecoder decoder;
  decoder.mantissa_bits = element.mantissa_bits;
  // With a larger bias normal numbers are subnormal in FP32.
  const bool is_floating = element.kind == ElementKind::floating && element.bias <= 127;
  const bool is_integer = element.kind == ElementKind::integer;
  const bool prefers_table = element.bits <= 8 && current_isa() == Isa::scalar;
  if (prefers_table || !(is_floating || is_integer)) decoder.table = decode_table(element);
  if (is_integer) {
    decoder.kind = CodeDecoder::Kind::integer;
    decoder.sign_mask = element.is_signed ? 1u << (element.bits - 1) : 0;
    return decoder;
  }
  if (!is_floating) return decoder;
  const FloatGrid grid = grid_of(element);
  decoder.kind = CodeDecoder::Kind::floating;
  decoder.bias = grid.bias;
  decoder.sign_mask = grid.sign_mask;
  decoder.magnitude_mask = grid.sign_mask != 0 ? grid.sign_mask - 1 : 0xFFFF;
  decoder.max_code = grid.max_code;
  decoder.inf_code = grid.inf_code;
  decoder.specials = element.specials;
  return decoder;
}

void dequantize_row(const CodeDecoder& decoder, const CodedRow& row, float* values) {
  NG_CHECK(row.block >= 1 && row.cols >= 0, row.block, row.cols);
  HWY_DYNAMIC_DISPATCH(DequantizeRow)(decoder, row, values);
}

}  // namespace ng::cpu
#endif
