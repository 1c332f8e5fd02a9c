// The public calls give what the program's own give, and refuse what makes no sense.
#include <gtest/gtest.h>
#include <narrowgauge/dot.h>
#include <narrowgauge/error.h>
#include <narrowgauge/formats.h>
#include <narrowgauge/packing.h>
#include <narrowgauge/quantize.h>
#include <narrowgauge/version.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "backend/ref/gemm.h"
#include "base/version.h"
#include "format/codec.h"
#include "format/operand_table.h"
#include "library/access.h"
#include "support/prepared_operand.h"

namespace narrowgauge {
namespace {

std::vector<float> values(int64_t count, uint32_t state) {
  std::vector<float> x(static_cast<size_t>(count));
  for (float& v : x) {
    state = state * 1664525u + 1013904223u;
    v = std::ldexp(static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f,
                   static_cast<int>(state >> 8 & 7));
  }
  return x;
}

TEST(LibraryFormats, ElementsAreTheRowsOfTheTable) {
  EXPECT_EQ(version(), ng::version());
  for (const std::string_view name : element_names()) {
    const ng::ElementFormat& row = ng::element_format(name);
    const Element element(name);
    EXPECT_EQ(element.name(), row.name);
    EXPECT_EQ(element.max(), ng::max_value(row));
    EXPECT_EQ(element.code_count(), ng::code_count(row));
    EXPECT_EQ(element.decode(1), ng::decode(row, 1));
    EXPECT_EQ(element.encode(0.78f), ng::encode(row, 0.78f));
  }
  EXPECT_EQ(Element("e4m3").decode(0x34), 0.75f);
  EXPECT_EQ(Element("e4m3").encode(1e9f, {}, Overflow::special), 0x7Fu);
  EXPECT_EQ(Element("e2m1").values()[7], 6.0f);
  EXPECT_EQ(Element("e8m7"), Element("bf16"));
  EXPECT_EQ(format("bfloat16"), format("bf16"));
  EXPECT_EQ(format("bfloat16").overflow, Overflow::special);
  const ValueRounding up = {Rounding::stochastic, 8, 255};
  EXPECT_EQ(Element("e2m1").encode(2.2f, up), 0x5u);
}

TEST(LibraryFormats, NamesAreThoseOfTheProgram) {
  for (const std::string_view name : ng::operand_names()) {
    EXPECT_EQ(operand_of(format(name)), ng::operand_of(name)) << name;
    EXPECT_EQ(describe(format(name)), name);
  }
  const std::vector<std::string_view> names = format_names();
  EXPECT_EQ(names.size(), ng::operand_names().size() + 2);
  for (const char* name : {"uint8", "uint4"}) {
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end());
    EXPECT_EQ(format(name).scale, ScaleKind::fp32);
    EXPECT_EQ(format(name).block, Block{.kind = Block::Kind::row});
  }
  EXPECT_EQ(bits_per_value(format("mxfp4")), 4.25);
  EXPECT_EQ(format("e3m3").element.bits(), 7);
  EXPECT_EQ(format("e3m3").scale, ScaleKind::none);
}

TEST(LibraryFormats, HaveAFieldForEveryKeyThatTheTableGivesThem) {
  const std::map<std::string, std::string> words = {{"element", "e3m2"},
                                                    {"block", "16x16"},
                                                    {"prescale", "0.5"},
                                                    {"fit", "6,4"},
                                                    {"scale_max", "256"}};
  for (const ng::OperandKey& key : ng::operand_keys()) {
    if (key.field.empty()) continue;
    const std::string word =
        key.values.empty() ? words.at(key.path) : std::string(key.values.back());
    ng::Operand operand = ng::operand_of("mxfp8_e5m2");
    ng::read_keys(operand, ng::parse_toml(key.path + " = " + ng::toml_of(key, word), "test"),
                  ng::operand_keys());
    EXPECT_EQ(operand_of(format_of(operand)), operand) << key.path;
  }
}

TEST(LibraryQuantize, IsTheQuantizerOfTheDefinition) {
  const int64_t rows = 21, cols = 70;
  const std::vector<float> x = values(rows * (cols + 3), 7);
  for (const char* name : {"mxfp4", "nvfp4", "mxfp6_e3m2", "fp8_e4m3", "int8"})
    for (const Along along : {Along::cols, Along::rows}) {
      const Quantized q =
          quantize({x.data(), rows, cols, cols + 3}, format(name), {.along = along, .threads = 2});
      const bool straight = along == Along::cols;
      const ng::ref::Prepared want(ng::operand_of(name), {x.data(), rows, cols, cols + 3}, 32,
                                   straight ? ng::Contract::cols : ng::Contract::rows);
      const std::vector<float> y = dequantize(q, 2);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c) {
          const auto at = static_cast<size_t>(r * cols + c);
          ASSERT_EQ(q.codes[at], straight ? want.code(r, c) : want.code(c, r)) << name;
          ASSERT_EQ(y[at], straight ? want.value(r, c) : want.value(c, r)) << name;
        }
      std::vector<float> strided(static_cast<size_t>(rows * 100), -7.0f);
      dequantize(q, {strided.data(), rows, cols, 100});
      EXPECT_EQ(strided[100 + 5], y[static_cast<size_t>(cols + 5)]);
      EXPECT_EQ(strided[100 + 70], -7.0f);
    }
}

TEST(LibraryQuantize, FitsAreFieldsThatAreChecked) {
  const std::vector<float> x = values(int64_t{20} * 64, 9);
  Format format = narrowgauge::format("nvfp4");
  format.fit = {6, 4};
  format.scale_max = 256;
  const ng::ref::Prepared want(operand_of(format), {x.data(), 20, 64, 64}, 16);
  EXPECT_EQ(dequantize(quantize({x.data(), 20, 64, 64}, format)), want.values());
  EXPECT_EQ(describe(format), "nvfp4 fit 6,4 scale_max 256");
  format.scale_max = 500;
  EXPECT_THROW(check(format), Error);
  format = narrowgauge::format("mxfp4");
  format.fit = {5};
  EXPECT_THROW(check(format), Error);
}

TEST(LibraryQuantize, AnyElementAndEmptyMatrices) {
  const std::vector<float> x = values(64, 3);
  for (const char* name : {"e8m0", "ue4m3", "e3m3", "bf16"}) {
    const Quantized q = quantize({x.data(), 2, 32, 32}, format(name));
    EXPECT_EQ(q.codes[5], Element(name).encode(x[5], {}, format(name).overflow)) << name;
  }
  Format affine = format("uint4");
  affine.block = {};
  const Quantized q = quantize({x.data(), 2, 32, 32}, affine);
  EXPECT_EQ(q.zeros.size(), 1U);
  EXPECT_LT(error_metrics({x.data(), 2, 32, 32}, {dequantize(q).data(), 2, 32, 32}).relative_mse,
            0.1);
  for (const char* name : {"mxfp4", "nvfp4", "fp8_e4m3", "e3m3"})
    for (const auto& [rows, cols] : {std::pair{0, 0}, {0, 32}, {3, 0}})
      EXPECT_TRUE(dequantize(quantize({nullptr, rows, cols, cols}, format(name))).empty()) << name;
}

TEST(LibraryDot, ProductsAreThoseOfTheGemm) {
  const int64_t m = 4, n = 3, k = 150;
  const std::vector<float> a = values(m * k, 1), b = values(n * k, 2);
  for (const char* left : {"mxfp4", "nvfp4", "mxfp8_e4m3", "fp8_e4m3", "bf16"})
    for (const char* right : {"mxfp4", "nvfp4", "fp8_e5m2", "int8"}) {
      const ng::ref::Prepared qa(ng::operand_of(left), {a.data(), m, k, k}, 32);
      const ng::ref::Prepared qb(ng::operand_of(right), {b.data(), n, k, k}, 32);
      std::vector<float> y(static_cast<size_t>(m * n));
      ng::ref::perform(ng::Gemm{.y = {y.data(), m, n, n}, .a = &qa.packed(), .b = &qb.packed()});
      const Quantized pa = quantize({a.data(), m, k, k}, format(left));
      const Quantized pb = quantize({b.data(), n, k, k}, format(right));
      EXPECT_EQ(multiply(pa, pb, 2), y) << left << " " << right;
      EXPECT_EQ(dot(pa, 3, pb, 2), y.back()) << left << " " << right;
    }
  // The transposed operand has its K along the rows.
  std::vector<float> bt(b.size());
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < k; ++i)
      bt[static_cast<size_t>(i * n + j)] = b[static_cast<size_t>(j * k + i)];
  const Quantized pa = quantize({a.data(), m, k, k}, format("mxfp4"));
  const Quantized straight = quantize({b.data(), n, k, k}, format("nvfp4"));
  const Quantized turned = quantize({bt.data(), k, n, n}, format("nvfp4"), {.along = Along::rows});
  EXPECT_EQ(multiply(pa, turned), multiply(pa, straight));
}

/// multiply() against the dots of the scalar definition, by bits.
void expect_definition(const Quantized& a, const Quantized& b) {
  const int64_t m = a.along == Along::cols ? a.rows : a.cols;
  const int64_t n = b.along == Along::cols ? b.rows : b.cols;
  const std::vector<float> y = multiply(a, b, 2);
  ASSERT_EQ(std::ssize(y), m * n);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const float got = y[static_cast<size_t>(i * n + j)], want = dot(a, i, b, j);
      if (std::isnan(got) && std::isnan(want)) continue;
      ASSERT_EQ(ng::float_bits(got), ng::float_bits(want))
          << describe(a.format) << " " << describe(b.format) << " at " << i << " " << j;
    }
}

std::vector<Format> formats_of_products() {
  std::vector<Format> all;
  for (const char* name : {"mxfp4", "nvfp4", "mxfp8_e5m2", "mxint8", "fp8_e4m3", "bf16", "fp16",
                           "int8", "int4", "e3m3", "e5m2fnuz"})
    all.push_back(format(name));
  all[0].rounding = Rounding::stochastic;
  all[0].prescale = 0.75f;
  all.push_back(format("fp8_e4m3"));
  all.back().block = {Block::Kind::tile, 4, 32};
  all.push_back(format("int8"));
  all.back().block = {Block::Kind::tile, 1, 64};
  all.back().scale = ScaleKind::pow2;
  return all;
}

TEST(LibraryDot, MultiplyHasTheBitsOfTheDefinition) {
  const int64_t m = 7, n = 18, k = 170;
  std::vector<float> a = values(m * k, 1);
  const std::vector<float> b = values(n * k, 2);
  a[200] = std::numeric_limits<float>::infinity();
  for (const Format& left : formats_of_products())
    for (const Format& right : formats_of_products()) {
      const Quantized straight = quantize({a.data(), m, k, k}, left, {.seed = 1});
      expect_definition(straight, quantize({b.data(), n, k, k}, right, {.seed = 2}));
      const QuantizeOptions turned = {.along = Along::rows, .seed = 2};
      expect_definition(straight, quantize({b.data(), k, n, n}, right, turned));
    }
  for (const auto& [rows, length] : {std::pair{int64_t{0}, k}, {m, int64_t{0}}}) {
    const Quantized empty = quantize({a.data(), rows, length, length}, format("mxfp4"));
    expect_definition(empty, quantize({b.data(), n, length, length}, format("nvfp4")));
  }
}

TEST(LibraryDot, MultiplyTakesWhatNoGemmTakes) {
  const int64_t m = 3, k = 64;
  const std::vector<float> a = values(m * k, 3);
  const MatrixView view = {a.data(), m, k, k};
  const Quantized good = quantize(view, format("mxfp8_e4m3"));
  for (const char* name : {"ue4m3", "e8m0"}) expect_definition(good, quantize(view, format(name)));
  Quantized least = quantize(view, format("int8"));
  least.codes[5] = 0x80;
  expect_definition(least, least);
}

TEST(LibraryHadamard, IsThatOfTheDefinition) {
  const int64_t m = 5, n = 6, k = 150;
  const std::vector<float> a = values(m * k, 1), b = values(n * k, 2);
  for (const int size : {16, 32, 64, 128})
    for (const char* name : {"mxfp4", "nvfp4", "fp8_e4m3", "bf16", "int8"}) {
      const Hadamard transform = {.size = size, .signs = {0x1234567, 0x89ABCDEF, 3, 0xF0F0F0F0}};
      const ng::Hadamard of_program = {.size = size, .signs = transform.signs};
      const Quantized qa = quantize({a.data(), m, k, k}, format(name), {.hadamard = transform});
      const Quantized qb = quantize({b.data(), k, n, n}, format(name),
                                    {.along = Along::rows, .hadamard = transform});
      EXPECT_EQ(qa.cols, (k + size - 1) / size * size);
      EXPECT_EQ(qb.rows, qa.cols);
      ng::OperandSpec left =
          ng::ref::spec_of(ng::operand_of(name), {a.data(), m, k, k}, ng::Contract::cols, 128);
      ng::OperandSpec right =
          ng::ref::spec_of(ng::operand_of(name), {b.data(), k, n, n}, ng::Contract::rows, 128);
      left.hadamard = right.hadamard = of_program;
      const ng::ref::Prepared want_a(left, {a.data(), m, k, k});
      const ng::ref::Prepared want_b(right, {b.data(), k, n, n});
      for (int64_t r = 0; r < m; ++r)
        for (int64_t c = 0; c < qa.cols; ++c)
          ASSERT_EQ(qa.codes[static_cast<size_t>(r * qa.cols + c)], want_a.code(r, c)) << name;
      std::vector<float> y(static_cast<size_t>(m * n));
      ng::ref::perform(
          ng::Gemm{.y = {y.data(), m, n, n}, .a = &want_a.packed(), .b = &want_b.packed()});
      EXPECT_EQ(multiply(qa, qb, 2), y) << name << " " << size;
      expect_definition(qa, qb);
    }
}

TEST(LibraryDot, Blocks) {
  const std::vector<uint16_t> codes = {0x7, 0xC, 0x1, 0x2, 0xE, 0x0, 0x2, 0x8};
  const CodedBlock block = {.element = Element("e2m1"), .codes = codes};
  EXPECT_EQ(block_dot(block, block), 58.25f);
}

TEST(LibraryPacking, BytesOfTheSpecification) {
  const std::vector<uint16_t> codes = {0x1C, 0x30, 0x00, 0x1C};
  const std::vector<uint8_t> bytes = {0x1C, 0x0C, 0x70};
  EXPECT_EQ(pack_codes(codes, 6), bytes);
  EXPECT_EQ(unpack_codes(bytes, 6, 4), codes);
  const std::vector<uint8_t> scales(130 * 5, 9);
  EXPECT_EQ(swizzle_scales(scales, 130, 5).size(), 2048U);
  EXPECT_EQ(unswizzle_scales(swizzle_scales(scales, 130, 5), 130, 5), scales);
  const std::vector<uint16_t> many(128, 3);
  const std::vector<uint8_t> four(4, 127), eight(8, 0x38);
  EXPECT_EQ(unpack_gguf(Gguf::mxfp4, pack_gguf(Gguf::mxfp4, many, four)).codes, many);
  EXPECT_EQ(unpack_gguf(Gguf::nvfp4, pack_gguf(Gguf::nvfp4, many, eight)).scales, eight);
}

TEST(Library, RefusesWhatMakesNoSenseInOneSentence) {
  const std::vector<float> x(64, 1.0f);
  const MatrixView view = {x.data(), 2, 32, 32};
  const Quantized good = quantize(view, format("mxfp4"));
  const auto with = [](auto object, const auto& change) {
    change(object);
    return object;
  };
  using Call = std::function<void()>;
  const std::vector<std::pair<const char*, Call>> calls = {
      {"mxfp4", [] { (void)format("mxpf4"); }},
      {"e4m3", [] { (void)Element("e4m3n"); }},
      {"at most 16: e8m7", [] { (void)Element("e8m9"); }},
      {"below 16", [] { (void)Element("e2m1").decode(16); }},
      {"below 2^8",
       [] {
         (void)Element("e2m1").encode(1, {Rounding::stochastic, 8, 256});
       }},
      {"at most 16 bits", [&] { (void)quantize(view, format("fp32")); }},
      {"cols 16, 32",
       [&] { (void)quantize(view, with(format("mxfp4"), [](Format& f) { f.block.cols = 20; })); }},
      {"\"fp32\" or \"pow2\"",
       [&] {
         (void)quantize(view, with(format("int8"), [](Format& f) { f.scale = ScaleKind::e8m0; }));
       }},
      {"2^-16",
       [&] {
         const float nan = std::numeric_limits<float>::quiet_NaN();
         (void)quantize(view, with(format("mxfp4"), [&](Format& f) { f.prescale = nan; }));
       }},
      {"0 to 4",
       [&] {
         (void)quantize(view, with(format("int8"), [](Format& f) { f.scale = ScaleKind(77); }));
       }},
      {"none or fp32",
       [&] {
         (void)quantize(view, with(format("uint8"), [](Format& f) { f.scale = ScaleKind::pow2; }));
       }},
      {"a pointer",
       [] {
         (void)quantize({nullptr, 2, 2, 2}, format("mxfp4"));
       }},
      {"sizes from 0",
       [] {
         (void)quantize({nullptr, -1, 2, 2}, format("mxfp4"));
       }},
      {"sizes from 0",
       [&] {
         (void)quantize({x.data(), INT64_MAX, 9, 9}, format("mxfp4"));
       }},
      {"at least a row",
       [&] {
         (void)quantize({x.data(), 2, 32, 31}, format("mxfp4"));
       }},
      {"1 to 1024", [&] { (void)quantize(view, format("mxfp4"), {.threads = 0}); }},
      {"64", [&] { (void)dequantize(with(good, [](Quantized& q) { q.codes.pop_back(); })); }},
      {"below 16", [&] { (void)dequantize(with(good, [](Quantized& q) { q.codes[3] = 99; })); }},
      {"3 x 1 of 1 x 32", [&] { (void)dequantize(with(good, [](Quantized& q) { ++q.rows; })); }},
      {"a power of two",
       [&] { (void)dequantize(with(good, [](Quantized& q) { q.scales[1] = 3; })); }},
      {"a power of two",
       [&] {
         const float most = std::numeric_limits<float>::infinity();
         (void)dequantize(with(good, [&](Quantized& q) { q.scales[1] = most; }));
       }},
      {"a value of e4m3",
       [&] {
         (void)dequantize(
             with(quantize(view, format("nvfp4")), [](Quantized& q) { q.scales[1] = 3.1f; }));
       }},
      {"125", [&] { (void)dequantize(with(good, [](Quantized& q) { ++q.scale_codes[1]; })); }},
      {"2", [&] { (void)dequantize(with(good, [](Quantized& q) { q.scale_codes.clear(); })); }},
      {"a power of two",
       [&] {
         const std::vector<uint16_t> codes(32, 1);
         const CodedBlock odd = {
             .element = Element("e2m1"), .codes = codes, .kind = ScaleKind::e8m0, .scale = 3};
         (void)block_dot(odd, odd);
       }},
      {"2 x 32",
       [&] {
         std::vector<float> y(64);
         dequantize(good, {y.data(), 1, 64, 64});
       }},
      {"one shape",
       [&] {
         (void)error_metrics(view, {x.data(), 1, 64, 64});
       }},
      {"one length",
       [&] {
         (void)multiply(good, quantize({x.data(), 1, 64, 64}, format("mxfp4")));
       }},
      {"one size with the same signs",
       [&] { (void)multiply(good, quantize(view, format("mxfp4"), {.hadamard = {.size = 32}})); }},
      {"16, 32, 64 or 128",
       [&] { (void)quantize(view, format("mxfp4"), {.hadamard = {.size = 8}}); }},
      {"signed elements",
       [&] { (void)quantize(view, format("uint8"), {.hadamard = {.size = 32}}); }},
      {"a multiple",
       [&] { (void)dequantize(with(good, [](Quantized& q) { q.hadamard.size = 64; })); }},
      {"rows count", [&] { (void)dot(good, 2, good, 0); }},
      {"below 16", [] { (void)pack_codes(std::vector<uint16_t>{16}, 4); }},
      {"2", [] { (void)unpack_codes(std::vector<uint8_t>(3), 4, 4); }},
      {"a multiple of 32",
       [] { (void)pack_gguf(Gguf::mxfp4, std::vector<uint16_t>(31), std::vector<uint8_t>(1)); }},
  };
  for (const auto& [remedy, call] : calls) {
    try {
      call();
      ADD_FAILURE() << "not refused: " << remedy;
    } catch (const Error& error) {
      EXPECT_NE(error.remedy().find(remedy), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace narrowgauge
