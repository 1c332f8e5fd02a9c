#include "backend/cpu/noise/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/noise/kernels.cc"
#include <hwy/foreach_target.h>  // once per instruction set

#include <algorithm>
#include <type_traits>

#include "backend/cpu/simd/kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

// Sixteen nibbles of two words, one to a lane, with what lies above them.
HWY_INLINE U16 Nibbles(const uint32_t* words) {
#if HWY_TARGET == HWY_SCALAR
  return ForParts<U16>([=](size_t p)
                           HWY_ATTR { return hn::Set(U16::Tag(), words[p / 8] >> (4 * (p % 8))); });
#else
  const U16::Tag d;
  const auto shifts = hn::ShiftLeft<2>(hn::And(hn::Iota(d, 0u), hn::Set(d, 7u)));
  return ForParts<U16>([&](size_t p) HWY_ATTR {
    auto word = hn::Set(d, words[p]);
    if constexpr (U16::kWidth == kLanes)
      word = hn::IfThenElse(hn::FirstN(d, 8), word, hn::Set(d, words[1]));
    return hn::Shr(word, shifts);
  });
#endif
}

// What AddNoise multiplies by a scale, from the draws of a row: a type for each kind. Pointers are
// copied: what is stored might be a panel, for all that the compiler knows.
struct RoundedNormal {
  const uint32_t* nibbles;
  HWY_INLINE RoundedNormal(const PanelDraws& draws, int64_t row)
      : nibbles(draws.nibbles + row * draws.stride) {}
  HWY_INLINE F16 operator()(int64_t col) const {
    const U16 nibble = Nibbles(nibbles + col / 8);
    if constexpr (F16::kWidth >= 8) return Looked(And(nibble, Set16(7u)));
    const F16 magnitude = ToFloat(Bits<int32_t>(And(nibble, Set16(3u))));
    return Xor(magnitude, Bits<float>(ShiftLeft<29>(And(nibble, Set16(4u)))));
  }

 private:
  static HWY_INLINE F16 Looked(const U16& index) {
    alignas(64) static constexpr float kValues[16] = {0, 1, 2, 0, -0.0f, -1, -2, 0};
    const F16::Tag d;
    const auto table = hn::Load(d, kValues);
    return ForParts<F16>([&](size_t p) HWY_ATTR {
      return hn::TableLookupLanes(table, hn::IndicesFromVec(d, index.part[p]));
    });
  }
};
struct Uniform {
  const uint16_t* halves;
  HWY_INLINE Uniform(const PanelDraws& draws, int64_t row)
      : halves(draws.halves + row * draws.stride) {}
  HWY_INLINE F16 operator()(int64_t col) const {
    const F16 h = ToFloat(LoadHalves16<int32_t>(halves + col));
    return Sub(Mul(Add(h, Set16(0.5f)), Set16(0x1p-16f)), Set16(0.5f));
  }
};
struct UniformInBf16 {
  Uniform uniform;
  HWY_INLINE UniformInBf16(const PanelDraws& draws, int64_t row) : uniform(draws, row) {}
  HWY_INLINE F16 operator()(int64_t col) const { return RoundToBf16(uniform(col)); }
};

template <class Noise>
using NoiseOf = std::type_identity<Noise>;

template <class Body>
HWY_INLINE void WithKind(const NoisePanel& panel, const Body& body) {
  switch (panel.kind) {
    case NoiseKind::gaussws:
      return body(NoiseOf<RoundedNormal>());
    case NoiseKind::diffq:
      return body(NoiseOf<UniformInBf16>());
    default:
      return body(NoiseOf<Uniform>());
  }
}

template <class Noise, class W, class Y>
HWY_INLINE void AddRow(NoiseOf<Noise> /* kind */, const NoisePanel& panel, int64_t row, const W* w,
                       int64_t cols, Y* y) {
  const Noise noise(panel.draws, row);
  const float* const scales = panel.scales;
  ForLanes(cols, [=](int64_t i, auto left) HWY_ATTR {
    const F16 x = Load16(w + i, left);
    Store16(Add(x, Mul(noise(i), Set16(scales[i / kNoiseTile]))), y + i, left);
  });
}

template <class W, class Y>
HWY_INLINE void AddRowClipped(const NoisePanel& panel, int64_t row, const W* w, int64_t cols,
                              Y* y) {
  const F16 alpha = Set16(panel.alpha), delta = Set16(panel.scales[0]), sign = Set16(-0.0f);
  const Uniform noise(panel.draws, row);
  ForLanes(cols, [=](int64_t i, auto left) HWY_ATTR {
    const F16 x = Load16(w + i, left);
    const F16 clipped = Or(alpha, And(x, sign));
    const F16 noisy = Add(x, Mul(noise(i), delta));
    Store16(Select(Ge(Abs(x), alpha), clipped, noisy), y + i, left);
  });
}

void AddNoiseTo(const NoisePanel& panel, const View& y) {
  WithStored(panel.weight, [&](auto weight) HWY_ATTR {
    WithStored(y, [&](auto out) HWY_ATTR {
      const auto w = weight.RowsOf(panel.weight);
      const auto to = out.RowsOf(y);
      const int64_t cols = panel.weight.cols;
      if (panel.kind == NoiseKind::nipq) {
        for (int64_t r = 0; r < w.rows; ++r) AddRowClipped(panel, r, w.row(r), cols, to.row(r));
        return;
      }
      WithKind(panel, [&](auto kind) HWY_ATTR {
        for (int64_t r = 0; r < w.rows; ++r) AddRow(kind, panel, r, w.row(r), cols, to.row(r));
      });
    });
  });
}

void QuantizeRows(const ConstView& weight, float alpha, float delta, const View& y) {
  const F16 most = Set16(alpha), step = Set16(delta), sign = Set16(-0.0f);
  const F16 whole = Set16(0x1.8p23f);  // adding it leaves no bits behind the point
  WithStored(weight, [&](auto stored) HWY_ATTR {
    WithStored(y, [&](auto out) HWY_ATTR {
      const auto w = stored.RowsOf(weight);
      const auto to = out.RowsOf(y);
      for (int64_t r = 0; r < w.rows; ++r)
        ForLanes(weight.cols, [&](int64_t i, auto left) HWY_ATTR {
          const F16 x = Load16(w.row(r) + i, left);
          const F16 level = Sub(Add(Div(Abs(x), step), whole), whole);
          const F16 magnitude = Select(Ge(Abs(x), most), most, Mul(level, step));
          Store16(Or(magnitude, And(x, sign)), to.row(r) + i, left);
        });
    });
  });
}

template <class Body>
HWY_INLINE void ForTiles(int64_t cols, const Body& body) {
  for (int64_t c = 0; c < cols; c += kNoiseTile) body(c, std::min(kNoiseTile, cols - c));
}

// body(i, left) as ForLanes, where a tile's columns are mostly all of them.
template <class Body>
HWY_INLINE void ForTileLanes(int64_t cols, const Body& body) {
  if (cols < kNoiseTile) return ForLanes(cols, body);
  body(int64_t{0}, AllLanes());
  body(int64_t{kLanes}, AllLanes());
}

template <class W>
HWY_INLINE uint32_t LargestOfTile(const W& w, int64_t first, int64_t cols) {
  U16 most = Zero16<uint32_t>();
  for (int64_t r = 0; r < w.rows; ++r) {
    const auto* const row = w.row(r) + first;
    ForTileLanes(cols, [&](int64_t i, auto left) HWY_ATTR {
      most = Max(most, Bits<uint32_t>(Abs(Load16(row + i, left))));
    });
  }
  alignas(64) uint32_t lanes[kLanes];
  Store16(most, lanes);
  return *std::max_element(lanes, lanes + kLanes);
}

void FindMaxima(const ConstView& weight, uint32_t* maxima) {
  WithStored(weight, [&](auto stored) HWY_ATTR {
    const auto w = stored.RowsOf(weight);
    ForTiles(weight.cols, [&](int64_t c, int64_t cols)
                              HWY_ATTR { maxima[c / kNoiseTile] = LargestOfTile(w, c, cols); });
  });
}

// Σ dL/dŵ·noise of one tile, from column `first` on.
template <class Noise, class G>
HWY_INLINE float SumTile(NoiseOf<Noise> /* kind */, const PanelDraws& draws, const G& grad,
                         int64_t first, int64_t cols) {
  F16 sum = Zero16();
  for (int64_t r = 0; r < grad.rows; ++r) {
    const Noise noise(draws, r);
    const auto* const row = grad.row(r) + first;
    ForTileLanes(cols, [&](int64_t i, auto left) HWY_ATTR {
      sum = Add(sum, Mul(Load16(row + i, left), noise(first + i)));
    });
  }
  return FoldLanes(sum);
}

void SumTiles(const NoisePanel& panel, const ConstView& grad, float* sums) {
  WithStored(grad, [&](auto stored) HWY_ATTR {
    const auto g = stored.RowsOf(grad);
    WithKind(panel, [&](auto kind) HWY_ATTR {
      ForTiles(grad.cols, [&](int64_t c, int64_t cols) HWY_ATTR {
        sums[c / kNoiseTile] = SumTile(kind, panel.draws, g, c, cols);
      });
    });
  });
}

// Exact products of FP32 as doubles.
HWY_INLINE D16 ProductAsDouble(const F16& a, const F16& b) {
  alignas(64) float x[kLanes], y[kLanes];
  Store16(a, x);
  Store16(b, y);
  return Mul(LoadAsDouble16(x), LoadAsDouble16(y));
}

template <class W, class G>
HWY_INLINE void SumClippedTile(const NoisePanel& panel, const W& w, const G& grad, int64_t first,
                               int64_t cols, const ClippedSums& sums) {
  const F16 alpha = Set16(panel.alpha), zero = Zero16(), sign = Set16(-0.0f);
  D16 by_noise = Zero16<double>(), by_clip = Zero16<double>();
  for (int64_t r = 0; r < grad.rows; ++r) {
    const Uniform noise(panel.draws, r);
    ForLanes(cols, [&](int64_t i, auto left) HWY_ATTR {
      auto* const at = grad.row(r) + first + i;
      const F16 g = Load16(at, left), x = Load16(w.row(r) + first + i, left);
      const M16 is_clipped = Ge(Abs(x), alpha);
      const F16 inside = Select(is_clipped, zero, g);
      const F16 outside = Select(is_clipped, Xor(g, And(x, sign)), zero);
      by_noise = Add(by_noise, ProductAsDouble(inside, noise(first + i)));
      by_clip = Add(by_clip, ProductAsDouble(outside, Set16(1.0f)));
      Store16(inside, at, left);
    });
  }
  sums.by_noise[first / kNoiseTile] = FoldLanes(by_noise);
  sums.by_clip[first / kNoiseTile] = FoldLanes(by_clip);
}

void SumClippedTiles(const NoisePanel& panel, const View& grad, const ClippedSums& sums) {
  WithStored(grad, [&](auto stored) HWY_ATTR {
    WithStored(panel.weight, [&](auto weight) HWY_ATTR {
      const auto g = stored.RowsOf(grad);
      const auto w = weight.RowsOf(panel.weight);
      ForTiles(grad.cols, [&](int64_t c, int64_t cols)
                              HWY_ATTR { SumClippedTile(panel, w, g, c, cols, sums); });
    });
  });
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(AddNoiseTo);
HWY_EXPORT(FindMaxima);
HWY_EXPORT(QuantizeRows);
HWY_EXPORT(SumTiles);
HWY_EXPORT(SumClippedTiles);

void add_noise(const NoisePanel& panel, const View& y) {
  HWY_DYNAMIC_DISPATCH(AddNoiseTo)(panel, y);
}
void find_maxima(const ConstView& weight, uint32_t* maxima) {
  HWY_DYNAMIC_DISPATCH(FindMaxima)(weight, maxima);
}
void quantize_by_proxy(const ConstView& weight, float alpha, float delta, const View& y) {
  HWY_DYNAMIC_DISPATCH(QuantizeRows)(weight, alpha, delta, y);
}
void sum_tiles(const NoisePanel& panel, const ConstView& grad, float* sums) {
  HWY_DYNAMIC_DISPATCH(SumTiles)(panel, grad, sums);
}
void sum_clipped_tiles(const NoisePanel& panel, const View& grad, const ClippedSums& sums) {
  HWY_DYNAMIC_DISPATCH(SumClippedTiles)(panel, grad, sums);
}

}  // namespace ng::cpu
#endif
