#include "format/dot.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "format/codec.h"
#include "format/hadamard.h"

namespace ng {
namespace {

constexpr int64_t kMxfp4Group = 128;
constexpr int64_t kIntegerChunk = 131072;  // products that int32 sums exactly

/// A scale as m · 2^e.
struct SplitScale {
  float m = 1;
  int e = 0;
};

SplitScale split_scale(ScaleKind kind, float scale) {
  if (kind != ScaleKind::e8m0) return {scale, 0};
  if (std::isnan(scale)) return {scale, 0};
  return {1.0f, floor_log2(scale)};
}

bool is_blocked(const NarrowRow& row) { return row.block > 0; }

bool is_mxfp4(const NarrowRow& row) {
  return row.element->short_name == "e2m1" && row.kind == ScaleKind::e8m0 && row.block == 32;
}

bool is_integer(const NarrowRow& row) {
  return row.element->kind == ElementKind::integer && row.element->mantissa_bits == 0;
}

bool has_fp32_scales(const NarrowRow& row) {
  return row.kind == ScaleKind::fp32 || row.kind == ScaleKind::pow2;
}

/// Elements without scale, +0 from the last code to `count`.
std::vector<float> elements_of(const ElementFormat& element, std::span<const uint16_t> codes,
                               size_t count) {
  const ElementCodec codec(element);
  std::vector<float> values(count, 0.0f);
  for (size_t i = 0; i < codes.size(); ++i) values[i] = codec.decode(codes[i]);
  return values;
}

/// Σ x_i · y_i over [first, last), fused, ascending from 0.
float chain(const std::vector<float>& x, const std::vector<float>& y, int64_t first, int64_t last) {
  float acc = 0;
  for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(last); ++i)
    acc = std::fma(x[i], y[i], acc);
  return acc;
}

/// What is left to the end.
float late_scale(const NarrowRow& row) {
  const bool whole = !is_blocked(row) && !row.scales.empty();
  return (whole ? row.scales[0] : 1.0f) * row.tensor_scale;
}

/// Two rows, how far they reach, and the block of both.
struct Pair {
  const NarrowRow& a;
  const NarrowRow& b;
  int64_t k = 0;  ///< padded
  int64_t block = 0;
  std::vector<float> a_elements, b_elements;  ///< [k]
};

float element_chain(const Pair& p, int64_t first, int64_t last) {
  return chain(p.a_elements, p.b_elements, first, std::min(last, p.k));
}

float one_blocked_chain(const Pair& p) {
  const auto value = [](const NarrowRow& row, const std::vector<float>& elements, int64_t k) {
    const float element = elements[static_cast<size_t>(k)];
    return is_blocked(row) ? element * row.scale(k) : element;
  };
  float acc = 0;
  for (int64_t k = 0; k < p.k; ++k)
    acc = std::fma(value(p.a, p.a_elements, k), value(p.b, p.b_elements, k), acc);
  return acc;
}

float integer_sum(const Pair& p) {
  float acc = 0;
  for (int64_t first = 0; first < p.k; first += kIntegerChunk) {
    int64_t sum = 0;
    for (int64_t k = first; k < std::min(first + kIntegerChunk, p.k); ++k) {
      const auto i = static_cast<size_t>(k);
      sum += static_cast<int64_t>(p.a_elements[i]) * static_cast<int64_t>(p.b_elements[i]);
    }
    acc += static_cast<float>(sum);
  }
  return acc;
}

float mxfp4_sum(const Pair& p) {
  float acc = 0;
  for (int64_t first = 0; first < p.k; first += kMxfp4Group) {
    double group = 0;
    for (int64_t k = first; k < std::min(first + kMxfp4Group, p.k); k += p.block) {
      const SplitScale a = split_scale(p.a.kind, p.a.scale(k));
      const SplitScale b = split_scale(p.b.kind, p.b.scale(k));
      const double s = element_chain(p, k, k + p.block);
      group += std::ldexp(s * (a.m * b.m), a.e + b.e);  // exact; m is 1, or NaN
    }
    acc += static_cast<float>(group);
  }
  return acc;
}

float narrow_scale_sum(const Pair& p) {
  float acc = 0;
  for (int64_t k = 0; k < p.k; k += p.block) {
    const SplitScale a = split_scale(p.a.kind, p.a.scale(k));
    const SplitScale b = split_scale(p.b.kind, p.b.scale(k));
    acc += std::scalbn(element_chain(p, k, k + p.block) * (a.m * b.m), a.e + b.e);
  }
  return acc;
}

float fp32_scale_sum(const Pair& p) {
  float acc = 0;
  for (int64_t k = 0; k < p.k; k += p.block)
    acc = std::fma(element_chain(p, k, k + p.block), p.a.scale(k) * p.b.scale(k), acc);
  return acc;
}

/// The table of backend/ref/gemm.h.
float accumulate(const Pair& p) {
  const bool both = is_blocked(p.a) && is_blocked(p.b);
  if (!both && (is_blocked(p.a) || is_blocked(p.b))) return one_blocked_chain(p);
  if (!both && is_integer(p.a) && is_integer(p.b)) return integer_sum(p);
  if (!both) return element_chain(p, 0, p.k);
  if (is_mxfp4(p.a) && is_mxfp4(p.b)) return mxfp4_sum(p);
  return has_fp32_scales(p.a) || has_fp32_scales(p.b) ? fp32_scale_sum(p) : narrow_scale_sum(p);
}

void check(const NarrowRow& row) {
  NG_CHECK(row.element != nullptr && row.block >= 0, row.block);
  const int64_t k = std::ssize(row.codes);
  const int64_t blocks = is_blocked(row)               ? (k + row.block - 1) / row.block
                         : row.kind == ScaleKind::none ? 0
                                                       : 1;
  NG_CHECK(std::ssize(row.scales) == blocks, row.scales.size(), blocks, k);
}

}  // namespace

float NarrowRow::scale(int64_t k) const {
  const auto at = static_cast<size_t>(block > 0 ? k / block : 0);
  return at < scales.size() ? scales[at] : 1.0f;  // beyond: a block of padding
}

float block_dot(const NarrowBlock& a, const NarrowBlock& b) {
  NG_CHECK(a.element != nullptr && b.element != nullptr);
  NG_CHECK(a.codes.size() == b.codes.size(), a.codes.size(), b.codes.size());
  const size_t count = a.codes.size();
  const float sum = chain(elements_of(*a.element, a.codes, count),
                          elements_of(*b.element, b.codes, count), 0, std::ssize(a.codes));
  const SplitScale sa = split_scale(a.kind, a.scale);
  const SplitScale sb = split_scale(b.kind, b.scale);
  return std::scalbn(sum * (sa.m * sb.m), sa.e + sb.e);
}

float general_dot(const NarrowRow& a, const NarrowRow& b) {
  check(a);
  check(b);
  NG_CHECK(a.codes.size() == b.codes.size(), a.codes.size(), b.codes.size());
  NG_CHECK(a.hadamard == b.hadamard, a.hadamard, b.hadamard);
  const int64_t larger = std::max({a.block, b.block, int64_t{1}});
  const int64_t smaller = is_blocked(a) && is_blocked(b) ? std::min(a.block, b.block) : larger;
  NG_CHECK(larger % smaller == 0, smaller, larger);
  const int64_t k = (std::ssize(a.codes) + larger - 1) / larger * larger;
  const auto count = static_cast<size_t>(k);
  const float acc = accumulate({.a = a,
                                .b = b,
                                .k = k,
                                .block = smaller,
                                .a_elements = elements_of(*a.element, a.codes, count),
                                .b_elements = elements_of(*b.element, b.codes, count)});
  const auto alpha = static_cast<float>(static_cast<double>(hadamard_alpha(a.hadamard)) /
                                        (static_cast<double>(a.prescale) * b.prescale));
  return acc * (late_scale(a) * late_scale(b) * alpha);
}

}  // namespace ng
