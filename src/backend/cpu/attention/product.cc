#include "backend/cpu/attention/product.h"

#include "base/flush.h"
#include "base/flush_modes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention/product.cc"
#include <hwy/foreach_target.h>  // once per instruction set

#include "backend/cpu/simd/lanes-inl.h"

#ifndef NG_BACKEND_CPU_ATTENTION_PRODUCT_ONCE_
#define NG_BACKEND_CPU_ATTENTION_PRODUCT_ONCE_
namespace ng::cpu {
/// C (rows, cols) (+)= A · B with A(i, k) = a[i · a_row + k · a_k], B (k, cols) row by row. Row i
/// sums over k in [max(0, i - start), min(depth, i + end)), ascending: one FMA chain per element,
/// from the value of C or from 0. Terms outside the band are not touched, whatever they hold.
struct Product {
  const float* a;
  int64_t a_row, a_k;
  const float* b;
  int64_t b_row;  ///< multiple of 16, so whole vectors of B can be read
  float* c;
  int64_t c_row;
  int64_t rows, cols, depth;
  int64_t start, end;  ///< as large as rows and depth together: the band has no such border
  bool add;
  bool flush;  ///< subnormals are zeros, read and made; then A is of BF16 and has none

  [[nodiscard]] int64_t first(int64_t i) const { return std::clamp<int64_t>(i - start, 0, depth); }
  [[nodiscard]] int64_t last(int64_t i) const { return std::clamp<int64_t>(i + end, 0, depth); }
};
}  // namespace ng::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void Multiply(const Product& p) {
  for (int64_t i = 0; i < p.rows; ++i) {
    float* c = p.c + i * p.c_row;
    if (!p.add) std::fill_n(c, p.cols, 0.0f);
    for (int64_t k = p.first(i); k < p.last(i); ++k) {
      const float* b = p.b + k * p.b_row;
      const float factor = p.a[i * p.a_row + k * p.a_k];
      for (int64_t n = 0; n < p.cols; ++n)
        c[n] = p.flush ? flushed_fma(factor, flushed(b[n]), flushed(c[n]))
                       : std::fma(factor, b[n], c[n]);
    }
  }
}

#else

// Rows i ... i + kRows - 1, columns n ... n + 16 · kVectors - 1.
template <int kRows, int kVectors>
HWY_INLINE void ProductBlock(const Product& p, int64_t i, int64_t n) {
  F16 acc[kRows][kVectors];
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) HWY_UNROLL(4)
  for (int v = 0; v < kVectors; ++v)
    acc[r][v] = p.add ? Load16(p.c + (i + r) * p.c_row + n + v * kLanes, p.cols - n - v * kLanes)
                      : Zero16();
  const float* a = p.a + i * p.a_row;
  const float* b = p.b + n;
  const auto step = [&](int64_t k, auto takes_part) HWY_ATTR {
    F16 vector[kVectors];
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) vector[v] = Load16(b + k * p.b_row + v * kLanes);
    HWY_UNROLL(16)
    for (int r = 0; r < kRows; ++r) {
      if (!takes_part(r)) continue;
      const F16 factor = Set16(a[r * p.a_row + k * p.a_k]);
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) acc[r][v] = Fma(factor, vector[v], acc[r][v]);
    }
  };
  const int64_t joint_first = p.first(i + kRows - 1);
  const int64_t joint_last = p.last(i);
  // A band narrower than the rows are many ends before the last of them begins.
  for (int64_t k = p.first(i); k < joint_first; ++k)
    step(k, [&](int r) { return k >= p.first(i + r) && k < p.last(i + r); });
  for (int64_t k = joint_first; k < joint_last; ++k) step(k, [](int) { return true; });
  for (int64_t k = std::max(joint_first, joint_last); k < p.last(i + kRows - 1); ++k)
    step(k, [&](int r) { return k < p.last(i + r); });
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) HWY_UNROLL(4)
  for (int v = 0; v < kVectors; ++v)
    Store16(acc[r][v], p.c + (i + r) * p.c_row + n + v * kLanes, p.cols - n - v * kLanes);
}

template <int kRows, int kVectors>
HWY_INLINE int64_t ProductRows(const Product& p, int64_t i, int64_t n) {
  for (; i + kRows <= p.rows; i += kRows) ProductBlock<kRows, kVectors>(p, i, n);
  return i;
}

// All rows of one strip of columns; registers hold kRows · kVectors sums.
template <int kRows, int kVectors>
HWY_NOINLINE void ProductStrip(const Product& p, int64_t n) {
  int64_t i = ProductRows<kRows, kVectors>(p, 0, n);
  if constexpr (kRows > 4) i = ProductRows<4, kVectors>(p, i, n);
  if constexpr (kRows > 2) i = ProductRows<2, kVectors>(p, i, n);
  ProductRows<1, kVectors>(p, i, n);
}

void Multiply(const Product& p) {
  int64_t n = 0;
#if HWY_TARGET == HWY_AVX3
  for (; n + 3 * kLanes < p.cols; n += 4 * kLanes) ProductStrip<6, 4>(p, n);
  if (p.cols - n > 2 * kLanes) return ProductStrip<8, 3>(p, n);
  if (p.cols - n > kLanes) return ProductStrip<12, 2>(p, n);
  if (p.cols > n) ProductStrip<12, 1>(p, n);
#else
  for (; n < p.cols; n += kLanes) ProductStrip<6, 1>(p, n);
#endif
}

#endif

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(Multiply);

namespace {

// The scalar kernel needs no flush modes.
void multiply(const Product& p) {
  if (!p.flush) return HWY_DYNAMIC_DISPATCH(Multiply)(p);
  const FlushModes flush;
  HWY_DYNAMIC_DISPATCH(Multiply)(p);
}

}  // namespace

void find_scores(const float* x, const float* y, float* scores, const AttentionTiles& tiles,
                 const Visible& visible) {
  for_score_blocks(visible, [&](int64_t i, int64_t rows, int64_t n, int64_t cols) {
    multiply({.a = x + i * tiles.width,
              .a_row = tiles.width,
              .a_k = 1,
              .b = y + n,
              .b_row = tiles.edge,
              .c = scores + i * tiles.edge + n,
              .c_row = tiles.edge,
              .rows = rows,
              .cols = cols,
              .depth = tiles.width,
              .start = visible.keys,
              .end = tiles.width,
              .add = false,
              .flush = false});
  });
}

void add_over_keys(const float* weights, const float* x, float* sums, const AttentionTiles& tiles,
                   const Visible& visible, Compute as) {
  multiply({.a = weights,
            .a_row = 1,
            .a_k = tiles.edge,
            .b = x,
            .b_row = tiles.width,
            .c = sums,
            .c_row = tiles.width,
            .rows = visible.queries,
            .cols = tiles.width,
            .depth = visible.keys,
            .start = visible.window - visible.diagonal - 1,
            .end = visible.diagonal + 1,
            .add = true,
            .flush = as == Compute::bf16});
}

void add_over_queries(const float* weights, const float* x, const Rows<float>& sums,
                      const AttentionTiles& tiles, const Visible& visible, Compute as) {
  multiply({.a = weights,
            .a_row = tiles.edge,
            .a_k = 1,
            .b = x,
            .b_row = tiles.width,
            .c = sums.data,
            .c_row = sums.stride,
            .rows = visible.keys,
            .cols = sums.cols,
            .depth = visible.queries,
            .start = visible.diagonal,
            .end = visible.window - visible.diagonal,
            .add = true,
            .flush = as == Compute::bf16});
}

}  // namespace ng::cpu
#endif
