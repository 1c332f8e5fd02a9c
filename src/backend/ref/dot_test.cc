// The general dot of format/ is ref's GEMM, bit for bit.
#include "format/dot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "backend/ref/gemm.h"
#include "math/round.h"
#include "support/prepared_operand.h"

namespace ng {
namespace {

using Codes = std::vector<uint16_t>;

/// A matrix as rows of codes and scales, from what ref prepared.
struct NarrowRows {
  explicit NarrowRows(const ref::Prepared& q) : spec(q.packed().spec), codes(q.codes()) {
    const ref::OperandParts parts = q.parts();
    tensor_scale = *parts.tensor_scales;
    const Operand& cast = spec.cast;
    block = cast.block.kind == Block::Kind::tile && !cast.is_unscaled() ? cast.block.cols : 0;
    per_row = cast.is_unscaled() ? 0 : block > 0 ? (spec.k + block - 1) / block : 1;
    for (int64_t r = 0; r < spec.rows; ++r)
      for (int64_t s = 0; s < per_row; ++s) scales.push_back(parts.scale(r, s * block));
  }
  /// Without the padding that ref prepared.
  [[nodiscard]] NarrowRow row(int64_t r) const {
    const auto first = static_cast<size_t>(r * spec.k_padded());
    const auto scale = static_cast<size_t>(r * per_row);
    return {.element = spec.cast.element,
            .codes = std::span(codes).subspan(first, static_cast<size_t>(spec.k)),
            .kind = spec.cast.scale,
            .block = block,
            .scales = std::span(scales).subspan(scale, static_cast<size_t>(per_row)),
            .tensor_scale = tensor_scale,
            .prescale = spec.cast.prescale};
  }

  OperandSpec spec;
  Codes codes;
  std::vector<float> scales;
  float tensor_scale = 1;
  int64_t block = 0, per_row = 0;
};

bool same_bits(float a, float b) {
  return float_bits(a) == float_bits(b) || (std::isnan(a) && std::isnan(b));
}

/// Every output of ref's GEMM, bit for bit.
void expect_gemm(const Operand& left, const Operand& right, int64_t k, const ConstView& a,
                 const ConstView& b) {
  const ref::Prepared qa(left, a, 64);
  const ref::Prepared qb(right, b, 64);
  std::vector<float> y(static_cast<size_t>(a.rows * b.rows));
  ref::perform(Gemm{.y = {y.data(), a.rows, b.rows, b.rows}, .a = &qa.packed(), .b = &qb.packed()});
  const NarrowRows ra(qa), rb(qb);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < b.rows; ++j) {
      const float expected = y[static_cast<size_t>(i * b.rows + j)];
      EXPECT_TRUE(same_bits(general_dot(ra.row(i), rb.row(j)), expected))
          << describe(left) << " x " << describe(right) << " k " << k << " " << i << " " << j
          << ": " << general_dot(ra.row(i), rb.row(j)) << " instead of " << expected;
    }
}

std::vector<float> spread(int64_t count, uint32_t seed, int binades) {
  std::vector<float> x(static_cast<size_t>(count));
  uint32_t state = seed;
  for (float& v : x) {
    state = state * 1664525u + 1013904223u;
    v = std::ldexp(static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f,
                   static_cast<int>(state >> 9) % binades - binades / 2);
  }
  return x;
}

TEST(GeneralDot, EveryPairOfFormatsEqualsTheGemmOfRef) {
  std::vector<Operand> casts;
  for (const std::string_view name : operand_names())
    if (name != "fp32") casts.push_back(operand_of(name));
  for (const char* name : {"fp8_e4m3", "fp8_e5m2"}) {
    casts.push_back(operand_of(name));
    casts.back().block = {.kind = Block::Kind::tile, .rows = 1, .cols = 64};
  }
  casts.push_back(operand_of("mxfp4"));
  casts.back().prescale = 0.75f;
  casts.push_back(operand_of("mxfp4"));
  casts.back().element = &element_format("e3m3");
  for (const int64_t k : {1, 40, 150, 300}) {
    const std::vector<float> a = spread(3 * k, 1, 40), b = spread(2 * k, 2, 30);
    for (const Operand& left : casts)
      for (const Operand& right : casts)
        expect_gemm(left, right, k, {a.data(), 3, k, k}, {b.data(), 2, k, k});
  }
}

TEST(GeneralDot, NanBlocksAndExtremeScales) {
  constexpr int64_t k = 160;
  std::vector<float> a = spread(2 * k, 5, 250), b = spread(2 * k, 6, 250);
  a[40] = std::numeric_limits<float>::quiet_NaN();
  b[k + 100] = std::numeric_limits<float>::infinity();
  for (const char* left : {"mxfp4", "mxfp8_e4m3", "mxint8", "nvfp4"})
    for (const char* right : {"mxfp4", "mxfp6_e3m2", "nvfp4"})
      expect_gemm(operand_of(left), operand_of(right), k, {a.data(), 2, k, k}, {b.data(), 2, k, k});
}

}  // namespace
}  // namespace ng
