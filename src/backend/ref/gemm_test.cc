#include "backend/ref/gemm.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/json.h"
#include "format/codec.h"
#include "format/hadamard.h"
#include "io/safetensors.h"
#include "support/prepared_operand.h"

namespace ng::ref {
namespace {

/// Deterministic values in about ±2, with a few larger ones; exact in BF16.
std::vector<float> values(int64_t count, uint32_t seed) {
  std::vector<float> x(static_cast<size_t>(count));
  uint32_t state = seed * 2654435761u + 1;
  for (float& v : x) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<float>(static_cast<int32_t>(state >> 24) - 128) / 64.0f;
    if ((state >> 8) % 37 == 0) v *= 16;
  }
  return x;
}

std::vector<float> multiply(const Prepared& a, const Prepared& b, Gemm op = {}) {
  const int64_t rows = a.packed().spec.rows;
  const int64_t cols = b.packed().spec.rows;
  std::vector<float> y(static_cast<size_t>(rows * cols), -7.0f);  // overwritten
  op.y = {y.data(), rows, cols, cols};
  op.a = &a.packed();
  op.b = &b.packed();
  perform(op);
  return y;
}

Operand tile(const char* name, int rows, int cols) {
  Operand cast = operand_of(name);
  cast.block = {.kind = Block::Kind::tile, .rows = rows, .cols = cols};
  return cast;
}

struct Kind {
  std::string name;
  Operand a, b;
  int64_t k_multiple;
};

Kind kind_of(const std::string& name) {
  const auto of = operand_of;
  const Kind kinds[] = {{"mxfp4", of("mxfp4"), of("mxfp4"), 32},
                        {"mxfp6_e2m3", of("mxfp6_e2m3"), of("mxfp6_e2m3"), 32},
                        {"mxfp6_e3m2", of("mxfp6_e3m2"), of("mxfp6_e3m2"), 32},
                        {"mxfp8_e4m3", of("mxfp8_e4m3"), of("mxfp8_e4m3"), 32},
                        {"mxfp8_e4m3_x_e5m2", of("mxfp8_e4m3"), of("mxfp8_e5m2"), 32},
                        {"mxfp8_e4m3_x_mxfp4", of("mxfp8_e4m3"), of("mxfp4"), 32},
                        {"mxint8", of("mxint8"), of("mxint8"), 32},
                        {"nvfp4_1d_x_1d", of("nvfp4"), of("nvfp4"), 16},
                        {"nvfp4_1d_x_2d", of("nvfp4"), tile("nvfp4", 16, 16), 16},
                        {"fp8_e4m3", of("fp8_e4m3"), of("fp8_e4m3"), 1},
                        {"fp8_e5m2_x_e4m3", of("fp8_e5m2"), of("fp8_e4m3"), 1}};
  for (const Kind& kind : kinds)
    if (kind.name == name) return kind;
  throw std::invalid_argument("golden product of unknown kind " + name);
}

/// What a stored scale decodes by: E8M0 and E4M3 codes, or FP8's encode scale.
float decode_scale(const Operand& cast, float stored) {
  if (cast.scale == ScaleKind::fp32) return 1.0f / stored;
  const bool e8m0 = cast.scale == ScaleKind::e8m0;
  return decode(element_format(e8m0 ? "e8m0" : "e4m3"), static_cast<uint32_t>(stored));
}

void expect_scales(const io::Safetensors& file, const std::string& name, const Prepared& q) {
  const io::SafetensorsEntry& entry = file.at(name + ".scale");
  const std::vector<float> scales = io::to_floats(entry);
  const OperandSpec& spec = q.packed().spec;
  const Block& block = spec.cast.block;
  const bool tiles = block.kind == Block::Kind::tile;
  for (int64_t r = 0; r < spec.rows; ++r) {
    for (int64_t k = 0; k < spec.k; ++k) {
      const int64_t at = tiles ? r / block.rows * entry.shape.at(1) + k / block.cols : 0;
      if (q.value(r, k) == 0) continue;  // any scale serves a block of zeros
      ASSERT_EQ(q.parts().scale(r, k), decode_scale(spec.cast, scales.at(static_cast<size_t>(at))))
          << name << " " << r << " " << k;
    }
  }
  if (spec.cast.scale != ScaleKind::e4m3) return;
  const float encode_scale = io::to_floats(file.at(name + ".encode_scale")).at(0);
  EXPECT_EQ(*q.parts().tensor_scales, 1.0f / encode_scale) << name;
}

void expect_codes(const io::Safetensors& file, const std::string& name, const Prepared& q) {
  const std::vector<int64_t> codes = io::to_integers(file.at(name + ".codes"));
  const OperandSpec& spec = q.packed().spec;
  const ElementFormat& f = *spec.cast.element;
  const uint32_t mask = static_cast<uint32_t>(code_count(f) - 1);
  for (int64_t r = 0; r < spec.rows; ++r) {
    for (int64_t k = 0; k < spec.k; ++k) {
      const uint32_t expected =
          static_cast<uint32_t>(codes.at(static_cast<size_t>(r * spec.k + k))) & mask;
      const bool zeros = decode(f, expected) == 0 && decode(f, q.code(r, k)) == 0;
      ASSERT_TRUE(zeros || q.code(r, k) == expected) << name << " " << r << " " << k;
    }
  }
}

/// |y - expected| <= per_abs · absC; returns the largest share of it.
double expect_product(const io::Safetensors& file, const std::string& prefix, const char* expected,
                      const std::vector<float>& y, double per_abs) {
  // The expected values are read as FP32: one more rounding, far below the tolerance.
  const std::vector<float> c = io::to_floats(file.at(prefix + expected));
  const std::vector<float> abs_c = io::to_floats(file.at(prefix + ".absC"));
  EXPECT_EQ(c.size(), y.size()) << prefix;
  double worst = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    const double error = std::fabs(double{y[i]} - c.at(i));
    EXPECT_LE(error, per_abs * abs_c[i]) << prefix << expected << " " << i;
    if (abs_c[i] > 0) worst = std::max(worst, error / (per_abs * abs_c[i]));
  }
  return worst;
}

/// One case, named <shape>.<kind>; returns the worst error as a share of the tolerance.
double expect_golden_product(const io::Safetensors& file, const std::string& name,
                             const Json& parameters) {
  const int64_t m = parameters.at("M"), k = parameters.at("K"), n = parameters.at("N");
  const Kind kind = kind_of(parameters.at("kind"));
  const std::string shape = name.substr(0, name.rfind('.'));
  const std::vector<float> a = io::to_floats(file.at(shape + ".A"));
  const std::vector<float> b = io::to_floats(file.at(shape + ".B"));
  const Prepared qa(kind.a, view_of(a, m, k), kind.k_multiple);
  const Prepared qb(kind.b, view_of(b, n, k), kind.k_multiple);
  expect_codes(file, name + ".A", qa);
  expect_codes(file, name + ".B", qb);
  expect_scales(file, name + ".A", qa);
  expect_scales(file, name + ".B", qb);
  const std::vector<float> y = multiply(qa, qb);
  const double per_abs = 4e-7 * std::ceil(std::log2(static_cast<double>(k)) + 2);
  // TransformerEngine's FP32 sums run in an order of their own, each within the tolerance.
  if (file.find(name + ".C_te") != nullptr) expect_product(file, name, ".C_te", y, 2 * per_abs);
  return expect_product(file, name, ".C", y, per_abs);
}

TEST(Gemm, GoldenProductsOfEveryKind) {
  const io::Safetensors file(golden("gemm/gemm"));
  const Json cases = Json::parse(file.metadata().at("cases"));
  double worst = 0;
  for (const auto& [name, parameters] : cases.items())
    worst = std::max(worst, expect_golden_product(file, name, parameters));
  int64_t products = 0;
  for (const io::SafetensorsEntry& entry : file.entries()) products += entry.name.ends_with(".C");
  EXPECT_GT(products, 0);
  EXPECT_EQ(products, static_cast<int64_t>(cases.size())) << "all of them are cases";
  RecordProperty("worst_share_of_tolerance", std::to_string(worst));
}

TEST(Gemm, UnscaledProductsAreOneFmaChain) {
  const auto a = values(3 * 37, 1);
  const auto b = values(5 * 37, 2);
  for (const char* name : {"fp32", "bf16", "fp16"}) {
    const Prepared qa(operand_of(name), view_of(a, 3, 37));
    const Prepared qb(operand_of(name), view_of(b, 5, 37));
    const std::vector<float> y = multiply(qa, qb);
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < 5; ++j) {
        float acc = 0;
        for (int64_t k = 0; k < 37; ++k) acc = std::fma(qa.value(i, k), qb.value(j, k), acc);
        EXPECT_EQ(y[static_cast<size_t>(i * 5 + j)], acc) << name;
      }
    }
  }
}

TEST(Gemm, CarriedHalvesEqualTheWholeChain) {
  const auto a = values(4 * 64, 3);
  const auto b = values(6 * 64, 4);
  const ConstView va = view_of(a, 4, 64);
  const ConstView vb = view_of(b, 6, 64);
  const Operand fp32 = operand_of("fp32");
  const std::vector<float> whole = multiply(Prepared(fp32, va), Prepared(fp32, vb));
  std::vector<float> y =
      multiply(Prepared(fp32, va.columns(0, 29)), Prepared(fp32, vb.columns(0, 29)));
  const Prepared a_rest(fp32, va.columns(29, 35)), b_rest(fp32, vb.columns(29, 35));
  perform(Gemm{
      .y = {y.data(), 4, 6, 6}, .a = &a_rest.packed(), .b = &b_rest.packed(), .into = Into::carry});
  EXPECT_EQ(y, whole);
}

TEST(Gemm, BiasAddAndBf16AreAppliedInThatOrder) {
  const std::vector<float> a = {1.0f, 0x1p-9f};
  const std::vector<float> b = {1.0f, 1.0f};
  const float bias = 0x1p-8f;
  float y = 100.0f;
  const Prepared qa(operand_of("fp32"), view_of(a, 1, 2));
  const Prepared qb(operand_of("fp32"), view_of(b, 1, 2));
  Gemm op = {.y = {&y, 1, 1, 1},
             .a = &qa.packed(),
             .b = &qb.packed(),
             .into = Into::add,
             .bias = {&bias, 1, 1, 1}};
  perform(op);
  EXPECT_EQ(y, 100.0f + (1.0f + 0x1p-9f + 0x1p-8f));
  op.into = Into::overwrite;
  op.round = Compute::bf16;
  perform(op);
  EXPECT_EQ(y, 1.0f + 0x1p-7f);  // 1 + 3·2^-9 in BF16; without the bias it would be 1
  Bf16 narrow;
  op.y = {&narrow, 1, 1, 1};
  for (const Compute round : {Compute::fp32, Compute::bf16}) {
    op.round = round;
    op.into = Into::overwrite;
    perform(op);
    EXPECT_EQ(widened(narrow), y);
    op.into = Into::add;
    narrow = to_bf16(1.0f + 0x1p-6f);
    perform(op);
    EXPECT_EQ(widened(narrow), 2.0f + 0x1p-6f);  // 2 + 11·2^-9; a rounded product would give a tie
  }
}

TEST(Gemm, Mxfp4AddsGroupsOfFourBlocksInFp64) {
  // Block sums 2^24, 1, 1, -2^24 in one group of 128: FP64 keeps the ones, FP32 block by block
  // would lose the first of them to a tie. The fifth block starts a new group.
  constexpr int64_t k = 160;
  std::vector<float> a(k, 0.0f);
  std::vector<float> b(k, 0.0f);
  const float first[] = {0x1p24f, 1.0f, 1.0f, -0x1p24f, 3.0f};
  for (int64_t block = 0; block < 5; ++block) {
    a[static_cast<size_t>(32 * block)] = first[block];
    b[static_cast<size_t>(32 * block)] = 1.0f;
  }
  const Prepared qa(operand_of("mxfp4"), view_of(a, 1, k), 32);
  const Prepared qb(operand_of("mxfp4"), view_of(b, 1, k), 32);
  EXPECT_EQ(multiply(qa, qb).at(0), 5.0f);
  // Every other pair adds block by block in FP32: 2^24 + 1 stays 2^24, twice.
  const Prepared six(operand_of("mxfp6_e2m3"), view_of(b, 1, k), 32);
  EXPECT_EQ(multiply(qa, six).at(0), 3.0f);
}

TEST(Gemm, ContributionsOutsideTheRangeOfFp32RoundOnce) {
  // One block each, scales far apart: 6·2^(c-127) products below 2^-149 and above 2^128.
  const auto product = [](float x, float y, const char* format) {
    std::vector<float> a(32, 0.0f);
    std::vector<float> b(32, 0.0f);
    a[0] = x;
    b[0] = y;
    return multiply(Prepared(operand_of(format), view_of(a, 1, 32), 32),
                    Prepared(operand_of(format), view_of(b, 1, 32), 32))
        .at(0);
  };
  for (const char* format : {"mxfp4", "mxfp6_e2m3"}) {
    EXPECT_EQ(product(0x1.8p-100f, 0x1p-50f, format), 0x1p-149f);  // 0.75 of the least: up
    EXPECT_EQ(product(0x1p-100f, 0x1p-50f, format), 0.0f);         // a tie goes to even
    EXPECT_EQ(product(0x1p-110f, 0x1p100f, format), 0x1p-10f);
    EXPECT_EQ(product(0x1p100f, -0x1p100f, format), -std::numeric_limits<float>::infinity());
  }
}

TEST(Gemm, NanScalesMakeTheirProductsNan) {
  auto a = values(2 * 64, 5);
  const auto b = values(3 * 64, 6);
  a[40] = std::numeric_limits<float>::infinity();  // row 0, second block
  for (const char* format : {"mxfp4", "mxfp8_e4m3", "mxint8"}) {
    const std::vector<float> y = multiply(Prepared(operand_of(format), view_of(a, 2, 64), 32),
                                          Prepared(operand_of(format), view_of(b, 3, 64), 32));
    for (size_t j = 0; j < 3; ++j) {
      EXPECT_TRUE(std::isnan(y[j])) << format;
      EXPECT_TRUE(std::isfinite(y[3 + j])) << format;
    }
  }
}

TEST(Gemm, IntegerRowsSumExactlyAndScaleOnce) {
  const auto a = values(4 * 301, 7);
  const auto b = values(3 * 301, 8);
  for (const char* format : {"int8", "int4"}) {
    const Prepared qa(operand_of(format), view_of(a, 4, 301));
    const Prepared qb(operand_of(format), view_of(b, 3, 301));
    const std::vector<float> y = multiply(qa, qb);
    for (int64_t i = 0; i < 4; ++i) {
      for (int64_t j = 0; j < 3; ++j) {
        int64_t sum = 0;
        for (int64_t k = 0; k < 301; ++k) {
          const ElementFormat& f = element_format(format);
          sum += static_cast<int64_t>(decode(f, qa.code(i, k)) * decode(f, qb.code(j, k)));
        }
        const float scale = qa.parts().scale(i, 0) * qb.parts().scale(j, 0);
        EXPECT_EQ(y[static_cast<size_t>(i * 3 + j)], static_cast<float>(sum) * scale) << format;
      }
    }
  }
}

TEST(Gemm, Fp32BlockScalesMultiplyByFma) {
  const Operand activations = tile("fp8_e4m3", 1, 128);
  const Operand weights = tile("fp8_e4m3", 128, 128);
  const auto a = values(2 * 300, 9);
  const auto b = values(3 * 300, 10);
  const Prepared qa(activations, view_of(a, 2, 300), 128);
  const Prepared qb(weights, view_of(b, 3, 300), 128);
  const std::vector<float> y = multiply(qa, qb);
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      float acc = 0;
      for (int64_t first = 0; first < 384; first += 128) {
        float chain = 0;
        for (int64_t k = first; k < first + 128; ++k)
          chain =
              std::fma(qa.parts().elements[i * 384 + k], qb.parts().elements[j * 384 + k], chain);
        acc = std::fma(chain, qa.parts().scale(i, first) * qb.parts().scale(j, first), acc);
      }
      EXPECT_EQ(y[static_cast<size_t>(i * 3 + j)], acc);
    }
  }
}

TEST(Gemm, MixedPairsFollowTheSmallerBlockOrDecode) {
  const auto a = values(2 * 64, 11);
  const auto b = values(3 * 64, 12);
  const Prepared mx(operand_of("mxfp8_e4m3"), view_of(a, 2, 64), 32);
  const Prepared nv(operand_of("nvfp4"), view_of(b, 3, 64), 32);
  const Prepared plain(operand_of("bf16"), view_of(b, 3, 64), 32);
  const std::vector<float> narrow = multiply(mx, nv);
  const std::vector<float> decoded = multiply(mx, plain);
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      const auto at = static_cast<size_t>(i * 3 + j);
      float acc = 0;
      for (int64_t first = 0; first < 64; first += 16) {
        float chain = 0;
        for (int64_t k = first; k < first + 16; ++k)
          chain = std::fma(mx.parts().elements[i * 64 + k], nv.parts().elements[j * 64 + k], chain);
        acc += chain * nv.parts().scale(j, first) * mx.parts().scale(i, first);
      }
      EXPECT_EQ(narrow[at], acc * *nv.parts().tensor_scales);
      float whole = 0;
      for (int64_t k = 0; k < 64; ++k) whole = std::fma(mx.value(i, k), plain.value(j, k), whole);
      EXPECT_EQ(decoded[at], whole);
    }
  }
}

TEST(Gemm, HadamardAndPrescaleAreUndone) {
  // Small integers: transform, sums and both factors are exact, so the product is that of the
  // untransformed operands.
  std::vector<float> a = values(3 * 100, 13);
  std::vector<float> b = values(4 * 100, 14);
  for (float& v : a) v = std::nearbyint(v);
  for (float& v : b) v = std::nearbyint(v);
  Operand fp32 = operand_of("fp32");
  const std::vector<float> expected =
      multiply(Prepared(fp32, view_of(a, 3, 100)), Prepared(fp32, view_of(b, 4, 100)));
  fp32.prescale = 0.5f;
  for (const int g : {16, 32, 64, 128}) {
    OperandSpec left = spec_of(fp32, view_of(a, 3, 100), Contract::cols, g);
    OperandSpec right = spec_of(fp32, view_of(b, 4, 100), Contract::cols, g);
    left.hadamard = {.size = g, .signs = {0x12345678u, 0x9ABCDEF0u, 0x0F0F1234u, 0xDEADBEEFu}};
    right.hadamard = left.hadamard;
    EXPECT_EQ(multiply(Prepared(left, view_of(a, 3, 100)), Prepared(right, view_of(b, 4, 100))),
              expected)
        << g;
  }
}

TEST(Gemm, EmptyReductionGivesTheBias) {
  const std::vector<float> none;
  const std::vector<float> bias = {1.0f, -2.0f};
  const Prepared a(operand_of("mxfp4"), view_of(none, 2, 0), 32);
  const Prepared b(operand_of("mxfp4"), view_of(none, 2, 0), 32);
  Gemm op;
  op.bias = {bias.data(), 1, 2, 2};
  EXPECT_EQ(multiply(a, b, op), (std::vector<float>{1, -2, 1, -2}));
}

TEST(Gemm, OperandsThatDoNotFitAreRefused) {
  const auto a = values(64, 15);
  float y = 0;
  const Prepared mx(operand_of("mxfp4"), view_of(a, 1, 64), 32);
  const Prepared shorter(operand_of("mxfp4"), view_of(a, 1, 32), 32);
  Gemm op = {.y = {&y, 1, 1, 1}, .a = &mx.packed(), .b = &shorter.packed()};
  EXPECT_THROW(perform(op), InternalError);
  op.b = &mx.packed();
  op.into = Into::carry;
  EXPECT_THROW(perform(op), InternalError);
}

}  // namespace
}  // namespace ng::ref
