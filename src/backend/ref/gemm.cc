#include "backend/ref/gemm.h"

#include <algorithm>
#include <cmath>

#include "backend/ref/number.h"
#include "backend/ref/operand.h"
#include "base/flush.h"
#include "format/hadamard.h"
#include "math/round.h"

namespace ng::ref {
namespace {

constexpr int64_t kIntegerChunk = 131072;  // K up to which int8 products sum exactly in int32
constexpr int64_t kMxfp4Group = 128;
constexpr int64_t kTileDepth = 32;

/// One operand as the rules see it.
struct Factor {
  const OperandSpec& spec;
  OperandParts parts;

  [[nodiscard]] bool scaled() const { return !spec.cast.is_unscaled(); }
  [[nodiscard]] bool blocked() const {
    return scaled() && spec.cast.block.kind == Block::Kind::tile;
  }
  [[nodiscard]] bool integer() const {
    return spec.cast.element->kind == ElementKind::integer && spec.cast.element->mantissa_bits == 0;
  }
  [[nodiscard]] bool mxfp4() const {
    return spec.cast.element->name == "float4_e2m1fn" && spec.cast.scale == ScaleKind::e8m0 &&
           blocked() && spec.cast.block.cols == 32;
  }
  [[nodiscard]] bool fp32_scales() const {
    return spec.cast.scale == ScaleKind::fp32 || spec.cast.scale == ScaleKind::pow2 ||
           spec.cast.has_folded_scales();
  }
  [[nodiscard]] const float* row(int64_t r) const { return parts.elements + r * spec.k_padded(); }
  /// What is left to the end: the tensor or row scale, or NVFP4's s_t of all or of a row.
  [[nodiscard]] float late_scale(int64_t r) const {
    const float early = scaled() && !blocked() ? parts.scale(r, 0) : 1.0f;
    return spec.cast.has_folded_scales() ? early : early * parts.tensor_scale(r, 0);
  }
  /// Of a block, with its region's where that differs along K.
  [[nodiscard]] float scale(int64_t r, int64_t k) const {
    const float own = parts.scale(r, k);
    return spec.cast.has_folded_scales() ? own * parts.tensor_scale(r, k) : own;
  }
  /// Element with its block's scale; blocked operands only.
  [[nodiscard]] float decoded(int64_t r, int64_t k) const { return row(r)[k] * scale(r, k); }
  /// As tiles read it.
  [[nodiscard]] float in_tile(int64_t r, int64_t k) const {
    if (k >= spec.k_padded()) return 0;
    return flushed(blocked() ? decoded(r, k) : row(r)[k]);
  }
};

/// A row of A, a row of B, and their common length.
struct Dot {
  const Factor& a;
  const Factor& b;
  int64_t i, j;
  int64_t k;
  int64_t block;  ///< the smaller block length along K, where both are blocked
};

/// acc = fma(a_k, b_k, acc) over [first, last).
float element_chain(const Dot& d, int64_t first, int64_t last, float acc) {
  const float* a = d.a.row(d.i);
  const float* b = d.b.row(d.j);
  for (int64_t k = first; k < last; ++k) acc = std::fma(a[k], b[k], acc);
  return acc;
}

float one_blocked_chain(const Dot& d) {
  float acc = 0;
  for (int64_t k = 0; k < d.k; ++k) {
    const float a = d.a.blocked() ? d.a.decoded(d.i, k) : d.a.row(d.i)[k];
    const float b = d.b.blocked() ? d.b.decoded(d.j, k) : d.b.row(d.j)[k];
    acc = std::fma(a, b, acc);
  }
  return acc;
}

float integer_sum(const Dot& d) {
  const float* a = d.a.row(d.i);
  const float* b = d.b.row(d.j);
  float acc = 0;
  for (int64_t first = 0; first < d.k; first += kIntegerChunk) {
    int64_t sum = 0;
    for (int64_t k = first; k < std::min(first + kIntegerChunk, d.k); ++k)
      sum += static_cast<int64_t>(a[k]) * static_cast<int64_t>(b[k]);
    acc += static_cast<float>(sum);
  }
  return acc;
}

/// A block scale as m · 2^e.
struct SplitScale {
  float m = 1;
  int e = 0;
};
SplitScale split_scale(const Factor& f, int64_t row, int64_t k) {
  const float scale = f.parts.scale(row, k);
  if (f.spec.cast.scale == ScaleKind::e8m0 && !std::isnan(scale)) return {1.0f, std::ilogb(scale)};
  return {scale, 0};
}

float mxfp4_sum(const Dot& d) {
  float acc = 0;
  for (int64_t first = 0; first < d.k; first += kMxfp4Group) {
    double group = 0;
    for (int64_t k = first; k < std::min(first + kMxfp4Group, d.k); k += d.block) {
      const SplitScale a = split_scale(d.a, d.i, k);
      const SplitScale b = split_scale(d.b, d.j, k);
      const double s = element_chain(d, k, std::min(k + d.block, d.k), 0.0f);
      group += std::ldexp(s * (a.m * b.m), a.e + b.e);  // m is 1, or NaN
    }
    acc += static_cast<float>(group);
  }
  return acc;
}

float narrow_scale_sum(const Dot& d) {
  float acc = 0;
  for (int64_t k = 0; k < d.k; k += d.block) {
    const SplitScale a = split_scale(d.a, d.i, k);
    const SplitScale b = split_scale(d.b, d.j, k);
    const float s = element_chain(d, k, std::min(k + d.block, d.k), 0.0f);
    acc += std::scalbn(s * (a.m * b.m), a.e + b.e);
  }
  return acc;
}

float fp32_scale_sum(const Dot& d) {
  float acc = 0;
  for (int64_t k = 0; k < d.k; k += d.block) {
    const float scale = d.a.scale(d.i, k) * d.b.scale(d.j, k);
    acc = std::fma(element_chain(d, k, std::min(k + d.block, d.k), 0.0f), scale, acc);
  }
  return acc;
}

float tile_sum(const Dot& d, float acc) {
  for (int64_t first = 0; first < d.k; first += kTileDepth) {
    float even = 0, odd = 0;
    for (int64_t k = first; k < first + kTileDepth; k += 2) {
      even = flushed_fma(d.a.in_tile(d.i, k), d.b.in_tile(d.j, k), even);
      odd = flushed_fma(d.a.in_tile(d.i, k + 1), d.b.in_tile(d.j, k + 1), odd);
    }
    acc = flushed(flushed(acc) + flushed(even + odd));
  }
  return acc + 0.0f;
}

using Accumulate = float (*)(const Dot&);

/// The row of the table in gemm.h; null: the element chain, which may start from y.
Accumulate rule_of(const Factor& a, const Factor& b) {
  if (a.blocked() != b.blocked()) return one_blocked_chain;
  if (!a.blocked()) return a.integer() && b.integer() ? integer_sum : nullptr;
  if (a.mxfp4() && b.mxfp4()) return mxfp4_sum;
  return a.fp32_scales() || b.fp32_scales() ? fp32_scale_sum : narrow_scale_sum;
}

int64_t common_block(const Factor& a, const Factor& b) {
  if (!a.blocked() || !b.blocked()) return 0;
  const int64_t smaller = std::min(a.parts.block_cols, b.parts.block_cols);
  const int64_t larger = std::max(a.parts.block_cols, b.parts.block_cols);
  NG_CHECK(larger % smaller == 0, smaller, larger);
  return smaller;
}

}  // namespace

void perform(const Gemm& op) {
  const PackedOperand &a = *op.a, &b = *op.b;
  const int64_t k = a.spec.k_padded();
  NG_CHECK(b.spec.k_padded() == k, k, b.spec.k_padded());
  NG_CHECK(a.spec.hadamard == b.spec.hadamard, a.spec.hadamard.size, b.spec.hadamard.size);
  NG_CHECK(op.y.rows == a.spec.rows && op.y.cols == b.spec.rows, op.y.rows, op.y.cols);
  const Factor left = {a.spec, parts_of(a)};
  const Factor right = {b.spec, parts_of(b)};
  const Accumulate rule = rule_of(left, right);
  const double prescales = static_cast<double>(a.spec.cast.prescale) * b.spec.cast.prescale;
  const auto alpha = static_cast<float>(hadamard_alpha(a.spec.hadamard.size) / prescales);
  const bool carry = op.into == Into::carry;
  NG_CHECK(!carry || (!left.scaled() && !right.scaled() && alpha == 1.0f), alpha);
  const bool tiles = op.sum == SumOrder::tile32;
  NG_CHECK(!tiles || (a.spec.cast.factors_are_bf16() && b.spec.cast.factors_are_bf16()));
  const int64_t block = tiles ? 0 : common_block(left, right);
  const Reader bias(op.bias);
  const Writer y(op.y);
  for (int64_t i = 0; i < op.y.rows; ++i) {
    for (int64_t j = 0; j < op.y.cols; ++j) {
      const Dot dot = {left, right, i, j, k, block};
      const float start = carry ? y(i, j) : 0.0f;
      const float acc = tiles             ? tile_sum(dot, start)
                        : rule == nullptr ? element_chain(dot, 0, k, start)
                                          : rule(dot);
      const float factor = left.late_scale(i) * right.late_scale(j) * alpha;
      float t = acc * factor;
      if (op.bias.rows > 0) t += bias(0, j);
      y.finish(i, j, t, op.into, op.round);
    }
  }
}

}  // namespace ng::ref
