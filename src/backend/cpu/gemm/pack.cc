#include "backend/cpu/gemm/pack.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/gemm/pack.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/gemm/load-inl.h"
#include "backend/cpu/gemm/width-inl.h"
#include "base/error.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

struct Extent {
  int64_t rows;  // of the panel that exist
  int64_t k;     // of the count that exist
};

Extent ExtentOf(const PanelSource& source, const PanelPlace& place) {
  return {std::clamp<int64_t>(source.rows - place.row, 0, place.width),
          std::clamp<int64_t>(source.k - place.k, 0, place.count)};
}

// Factors of the rows of a panel at k (relative to the panel), or null.
const float* FactorsAt(const PanelSource& source, const PanelPlace& place, const float* factors,
                       int64_t k) {
  if (factors == nullptr) return nullptr;
  return factors + ((place.k + k) / source.block - place.k / source.block) * place.width;
}

// Values of rows `first` and on, with the factors of their rows or, where that is null, without.
template <class D>
HWY_INLINE hn::Vec<D> Scaled(D d, hn::Vec<D> values, const float* factor, int64_t first) {
  return factor != nullptr ? hn::Mul(values, hn::LoadU(d, factor + first)) : values;
}

// The element at one row and k, +0 where the source has none.
template <class D, class Load>
HWY_INLINE hn::Vec<D> LoadOne(D d, const PanelSource& source, const Load& load, int64_t row,
                              int64_t k) {
  using Memory = typename Load::Memory;
  static constexpr Memory kZero{};
  const auto at = [&](int64_t j) {
    if (row >= source.rows || j >= source.k) return &kZero;
    return static_cast<const Memory*>(source.data) +
           (source.transposed ? j * source.stride + row : row * source.stride + j);
  };
  if constexpr (kValuesOf<Load> == 2)
    return load.Join(d, at(k), at(k + 1));
  else
    return load(d, at(k));
}

// One element at a time: edges, and blocks that the vector width does not divide.
template <class Load>
void PackOneByOne(const PanelSource& source, const PanelPlace& place, const Load& load,
                  const float* factors, float* out) {
  const hn::CappedTag<float, 1> d;
  for (int64_t k = 0; k < place.count; k += kValuesOf<Load>, out += place.width) {
    const float* factor = FactorsAt(source, place, factors, k);
    for (int64_t i = 0; i < place.width; ++i) {
      const auto value = LoadOne(d, source, load, place.row + i, place.k + k);
      hn::StoreU(Scaled(d, value, factor, i), d, out + i);
    }
  }
}

// Ends an odd number of values along K with -0 · +0, which changes no sum: -0 + -0 is -0, any other
// x + -0 is x. The panels of b end in +0 by themselves.
void EndPairs(const PanelSource& source, const PanelPlace& place, float* out) {
  if (place.count % 2 == 0 || !source.ends_negative) return;
  auto* words = reinterpret_cast<uint32_t*>(out) + place.count / 2 * place.width;
  for (int64_t i = 0; i < place.width; ++i) words[i] |= 0x8000u;
}

// memory[k][row]: rows lie side by side already. Panels side by side are filled together, so that
// whole cache lines are read once; sources often have strides that share few cache sets.
template <class D, class Load>
void CopyRows(D d, const PanelSource& source, const PanelPlace& place, const Load& load,
              const PanelRun& to) {
  constexpr int64_t kAhead = 24;
  const auto* from =
      static_cast<const typename Load::Memory*>(source.data) + place.k * source.stride + place.row;
  float* out = to.elements;
  constexpr int64_t kValues = kValuesOf<Load>;
  for (int64_t k = 0; k < place.count; k += kValues, out += place.width) {
    for (int64_t p = 0; p < to.count; ++p)
      for (int64_t i = 0; i < place.width; i += static_cast<int64_t>(hn::Lanes(d))) {
        const auto* at = from + p * place.width + i;
        for (int64_t v = 0; v < kValues; ++v) hwy::Prefetch(at + (kAhead + v) * source.stride);
        if constexpr (kValues == 2)
          hn::StoreU(load.Join(d, at, at + source.stride), d, out + p * to.stride + i);
        else
          hn::StoreU(load(d, at), d, out + p * to.stride + i);
      }
    from += kValues * source.stride;
  }
}

#if HWY_TARGET != HWY_SCALAR
using D8 = hn::CappedTag<float, 8>;
using V8 = hn::Vec<D8>;

// rows[r] holds columns 0..7 of row r; afterwards rows[c] holds rows 0..7 of column c.
HWY_INLINE void Transpose8x8(V8 (&rows)[8]) {
  const D8 d;
  const hn::Repartition<uint64_t, D8> d64;
  V8 pairs[8];
  for (int r = 0; r < 8; r += 2) {
    pairs[r] = hn::InterleaveLower(d, rows[r], rows[r + 1]);
    pairs[r + 1] = hn::InterleaveUpper(d, rows[r], rows[r + 1]);
  }
  V8 quads[8];  // quads[4h + c]: rows 4h..4h+3 of columns c and c + 4
  for (int h = 0; h < 2; ++h)
    for (int upper = 0; upper < 2; ++upper) {
      const auto low = hn::BitCast(d64, pairs[4 * h + upper]);
      const auto high = hn::BitCast(d64, pairs[4 * h + 2 + upper]);
      quads[4 * h + 2 * upper] = hn::BitCast(d, hn::InterleaveLower(d64, low, high));
      quads[4 * h + 2 * upper + 1] = hn::BitCast(d, hn::InterleaveUpper(d64, low, high));
    }
  for (int c = 0; c < 4; ++c) {
    rows[c] = hn::ConcatLowerLower(d, quads[4 + c], quads[c]);
    rows[c + 4] = hn::ConcatUpperUpper(d, quads[4 + c], quads[c]);
  }
}

// memory[row][k]: rows first .. first + 7 of the panel, eight elements at a time. place.count is a
// multiple of those; rows outside the operand read zeros.
template <class Load>
void TransposeRows(const PanelSource& source, const PanelPlace& place, const Load& load,
                   int64_t first, const float* factors, float* out) {
  using Memory = typename Load::Memory;
  constexpr int64_t kAhead = 128;
  constexpr int64_t kLine = 64 / sizeof(Memory);
  constexpr int64_t kStep = 8 * kValuesOf<Load>;
  static const Memory kZeros[kStep] = {};
  const D8 d;
  const Memory* row[8];
  int64_t step[8];
  for (int64_t r = 0; r < 8; ++r) {
    const int64_t at = place.row + first + r;
    step[r] = at < source.rows ? 1 : 0;
    row[r] = kZeros;
    if (step[r] != 0)
      row[r] = static_cast<const Memory*>(source.data) + at * source.stride + place.k;
  }
  for (int64_t k = 0; k < place.count; k += kStep) {
    V8 lanes[8];
    for (int64_t r = 0; r < 8; ++r) lanes[r] = load(d, row[r] + k * step[r]);
    if (k % kLine == 0)
      for (int64_t r = 0; r < 8; ++r) {
        hwy::Prefetch(row[r] + (k + kAhead) * step[r]);
        hwy::Prefetch(row[r] + (k + 8 * source.stride) * step[r]);  // of the rows that come next
      }
    Transpose8x8(lanes);
    float* to = out + k / kValuesOf<Load> * place.width + first;
    const float* factor = FactorsAt(source, place, factors, k);
    for (int64_t c = 0; c < 8; ++c, to += place.width)
      hn::StoreU(Scaled(d, lanes[c], factor, first), d, to);
  }
}

// A piece of K at a time, whose panel stays in the L1 cache while its rows are filled in.
template <class Load>
void TransposePanel(const PanelSource& source, const PanelPlace& place, const Load& load,
                    const float* factors, float* out) {
  constexpr int64_t kPiece = 64 * kValuesOf<Load>;
  for (int64_t k = 0; k < place.count; k += kPiece) {
    PanelPlace piece = place;
    piece.k += k;
    piece.count = std::min(kPiece, place.count - k);
    const float* piece_factors = FactorsAt(source, place, factors, k);
    for (int64_t first = 0; first < place.width; first += 8)
      TransposeRows(source, piece, load, first, piece_factors,
                    out + k / kValuesOf<Load> * place.width);
  }
}
#endif

// Fills what is left of a panel after the first `done` of its K.
template <class Load>
void PackRest(const PanelSource& source, const PanelPlace& place, const Load& load,
              const float* factors, int64_t done, float* out) {
  PanelPlace rest = place;
  rest.k += done;
  rest.count -= done;
  if (rest.count == 0) return;
  const float* rest_factors = FactorsAt(source, place, factors, done);
  PackOneByOne(source, rest, load, rest_factors, out + done / kValuesOf<Load> * place.width);
  if constexpr (kValuesOf<Load> == 2) EndPairs(source, place, out);
}

// Panels whose rows all exist are copied by whole vectors.
template <class Load>
void PackTransposed(const PanelSource& source, const PanelPlace& place, const Load& load,
                    const PanelRun& run) {
  PanelPlace whole = place;
  PanelRun inside = run;
  whole.count = ExtentOf(source, place).k / kValuesOf<Load> * kValuesOf<Load>;
  inside.count = std::clamp<int64_t>((source.rows - place.row) / place.width, 0, run.count);
#if HWY_TARGET == HWY_SCALAR
  whole.count = 0;
#else
  WithLanes(place.width, [&](auto d) HWY_ATTR { CopyRows(d, source, whole, load, inside); });
#endif
  for (int64_t p = 0; p < run.count; ++p) {
    PanelPlace panel = place;
    panel.row += p * place.width;
    const int64_t done = p < inside.count ? whole.count : 0;
    PackRest(source, panel, load, nullptr, done, run.elements + p * run.stride);
  }
}

// Whole blocks of 8 × 8 elements by transposing them in registers.
template <class Load>
void PackRowMajor(const PanelSource& source, const PanelPlace& place, const Load& load,
                  const float* factors, float* out) {
  PanelPlace whole = place;
  whole.count = 0;
#if HWY_TARGET != HWY_SCALAR
  const bool divides = factors == nullptr || (source.block % 8 == 0 && place.k % 8 == 0);
  constexpr int64_t kStep = 8 * kValuesOf<Load>;
  if (divides) whole.count = ExtentOf(source, place).k / kStep * kStep;
  TransposePanel(source, whole, load, factors, out);
#endif
  PackRest(source, place, load, factors, whole.count, out);
}

template <class Load>
void PackWith(const PanelSource& source, const PanelPlace& place, const Load& load,
              const float* factors, const PanelRun& run) {
  if (source.transposed)
    PackTransposed(source, place, load, run);
  else
    PackRowMajor(source, place, load, factors, run.elements);
}

// body(what loads the values as they lie in memory) of those that are rounded on the way.
template <class Body>
void WithSourceOf(const PanelSource& source, const Body& body) {
  if (source.from_bf16)
    body(LoadBf16Bits());
  else
    body(LoadFp32());
}

uint32_t LargestBf16(const PanelSource& source) {
  return source.saturate ? 0x7F7F0000u : 0x7F800000u;
}

void PackPairs(const PanelSource& source, const PanelPlace& place, const PanelRun& run) {
  if (source.units == Units::int16) {
    NG_CHECK(source.values == PanelSource::Values::bf16_bits);  // int8 lies interleaved [words.cc]
    return PackWith(source, place, LoadInt16Pairs{1 / source.unit}, nullptr, run);
  }
  if (source.values == PanelSource::Values::bf16_bits)
    return PackWith(source, place, LoadBf16Pairs<LoadBf16Bits>(), nullptr, run);
  WithSourceOf(source, [&](auto plain) HWY_ATTR {
    const LoadToBf16<decltype(plain)> load{LargestBf16(source)};
    PackWith(source, place, LoadBf16Pairs<LoadToBf16<decltype(plain)>>{load}, nullptr, run);
  });
}

void PackElements(const PanelSource& source, const PanelPlace& place, const float* factors,
                  const PanelRun& run) {
  using Values = PanelSource::Values;
  if (source.units != Units::fp32) return PackPairs(source, place, run);
  switch (source.values) {
    case Values::fp32:
      return PackWith(source, place, LoadFp32(), factors, run);
    case Values::bf16_bits:
      return PackWith(source, place, LoadBf16Bits(), factors, run);
    case Values::int8:
      return PackWith(source, place, LoadInt8{source.unit}, factors, run);
    case Values::to_bf16:
      return WithSourceOf(source, [&](auto plain) HWY_ATTR {
        PackWith(source, place, LoadToBf16<decltype(plain)>{LargestBf16(source)}, factors, run);
      });
    case Values::to_fp16:
      return WithSourceOf(source, [&](auto plain) HWY_ATTR {
        const uint32_t largest = source.saturate ? 0x477FE000u : 0x7F800000u;
        PackWith(source, place, LoadToFp16<decltype(plain)>{largest}, factors, run);
      });
  }
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {

HWY_EXPORT(PackElements);

void pack_elements(const PanelSource& source, const PanelPlace& place, const float* factors,
                   const PanelRun& run) {
  HWY_DYNAMIC_DISPATCH(PackElements)(source, place, factors, run);
}

}  // namespace ng::cpu
#endif
