// Whole matrices against the definition of operands (backend/ref) and of affine integers.
#include "numbers/narrow_matrix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "backend/cpu/workspace.h"
#include "format/codec.h"
#include "format/scale.h"
#include "numbers/encoder.h"
#include "numbers/narrow_bytes.h"
#include "support/prepared_operand.h"

namespace ng {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();
constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

Block tile(int rows, int cols) { return {Block::Kind::tile, rows, cols}; }

Operand with(Operand operand, Block block) {
  operand.block = block;
  return operand;
}

Operand stochastic(Operand operand, int bits) {
  operand.rounding = Rounding::stochastic;
  operand.sr_bits = bits;
  return operand;
}

Operand unscaled(const char* element) {
  Operand operand;
  operand.element = &element_format(element);
  return operand;
}

Operand pow2(Operand operand) {
  operand.scale = ScaleKind::pow2;
  return operand;
}

Operand fitted(Operand operand, const Fits& fit) {
  operand.fit = fit;
  operand.scale_max = operand.tensor_scale == ScaleKind::none ? 448.0f : 256.0f;
  return operand;
}

std::vector<Operand> casts() {
  std::vector<Operand> all;
  for (const std::string_view name : operand_names())
    if (name != "fp32") all.push_back(operand_of(name));
  all.push_back(with(operand_of("nvfp4"), tile(16, 16)));
  all.push_back(with(operand_of("mxfp4"), tile(32, 32)));
  all.push_back(with(operand_of("fp8_e4m3"), tile(1, 128)));
  all.push_back(pow2(with(operand_of("fp8_e5m2"), {Block::Kind::row, 0, 0})));
  all.push_back(with(operand_of("int8"), {}));
  all.push_back(pow2(with(operand_of("int4"), tile(4, 16))));
  all.push_back(stochastic(operand_of("nvfp4"), 16));
  all.push_back(stochastic(operand_of("mxfp8_e5m2"), 8));
  all.push_back(stochastic(operand_of("fp8_e4m3"), 32));
  all.push_back(stochastic(operand_of("bf16"), 16));
  all.push_back(fitted(operand_of("nvfp4"), {6, 4}));
  all.push_back(fitted(with(operand_of("nvfp4"), tile(16, 16)), {6, 4}));
  all.push_back(fitted(operand_of("fp8_e4m3"), {240}));
  all.push_back(unscaled("e4m3fnuz"));
  all.push_back(unscaled("e3m4"));
  return all;
}

/// Values of many sizes, with zeros; every row its own size.
std::vector<float> values(int64_t rows, int64_t cols) {
  std::vector<float> x = ref::normals(rows * cols, 7);
  for (int64_t i = 0; i < rows * cols; ++i)
    x[static_cast<size_t>(i)] *=
        std::ldexp(1.0f, static_cast<int>(i / cols % 9) - 4) * static_cast<float>(i % 7 != 0);
  return x;
}

void expect_same_bits(const std::vector<float>& have, const std::vector<float>& want,
                      const std::string& what) {
  ASSERT_EQ(have.size(), want.size()) << what;
  for (size_t i = 0; i < have.size(); ++i)
    ASSERT_TRUE(std::bit_cast<uint32_t>(have[i]) == std::bit_cast<uint32_t>(want[i]) ||
                (std::isnan(have[i]) && std::isnan(want[i])))
        << what << " [" << i << "]: " << have[i] << ", the definition has " << want[i];
}

// `matrix` against backend/ref on the whole source.
void expect_as_ref(const NarrowMatrix& matrix, Rows<const float> source,
                   const QuantizeOptions& options) {
  const bool straight = options.along == Contract::cols;
  OperandSpec spec =
      ref::spec_of(matrix.cast, source, options.along, std::max(options.hadamard.size, 1));
  spec.hadamard = options.hadamard;
  OperandStats counts;
  const ref::Prepared want(spec, source, ref::drawing(options.key, &counts));
  const std::string what = describe(matrix.cast) + (straight ? " along cols" : " along rows");
  const std::vector<float> have = dequantize(matrix, {2});
  std::vector<float> turned(have.size());
  ASSERT_EQ(have.size(), want.values().size()) << what;
  for (int64_t r = 0; r < matrix.rows; ++r)
    for (int64_t c = 0; c < matrix.cols; ++c) {
      const auto at = static_cast<size_t>(r * matrix.cols + c);
      const int64_t row = straight ? r : c, k = straight ? c : r;
      turned[at] = want.value(row, k);
      ASSERT_EQ(matrix.codes[at], want.code(row, k)) << what << " (" << r << ", " << c << ')';
      if (matrix.grid.size() == 0) continue;
      ASSERT_EQ(std::bit_cast<uint32_t>(matrix.scales[size_t(matrix.grid.at(r, c))]),
                std::bit_cast<uint32_t>(want.parts().scale(row, k)))
          << what;
    }
  expect_same_bits(have, turned, what);
  EXPECT_EQ(matrix.tensor_scale, *want.parts().tensor_scales) << what;
  EXPECT_EQ(matrix.counts.values, counts.values) << what;
  EXPECT_EQ(matrix.counts.saturated, counts.saturated) << what;
  EXPECT_EQ(matrix.counts.flushed, counts.flushed) << what;
  EXPECT_EQ(matrix.counts.nan, counts.nan) << what;
  EXPECT_EQ(matrix.counts.inf, counts.inf) << what;
}

QuantizeOptions options_of(Contract along) {
  return {.along = along, .key = {.seed = 3, .tensor = 5, .purpose = Purpose::fprop_input}};
}

TEST(Quantize, EqualsTheDefinitionInBothOrientations) {
  const std::vector<float> x = values(67, 131);
  const Rows<const float> source{x.data(), 67, 130, 131};  // neither dense nor whole blocks
  for (const Operand& cast : casts())
    for (const Contract along : {Contract::cols, Contract::rows}) {
      const QuantizeOptions options = options_of(along);
      for (const int threads : {1, 3})
        expect_as_ref(quantize(source, cast, options, {threads}), source, options);
    }
}

TEST(Quantize, EqualsTheDefinitionWithNonFiniteValues) {
  for (const float special : {kNotANumber, kInfinite, -kInfinite}) {
    std::vector<float> x = values(48, 70);
    x[5 * 70 + 3] = special;
    const Rows<const float> source{x.data(), 48, 70, 70};
    for (const Operand& cast : casts())
      for (const Contract along : {Contract::cols, Contract::rows})
        expect_as_ref(quantize(source, cast, options_of(along), {2}), source, options_of(along));
  }
}

TEST(Quantize, TransformsBeforeRounding) {
  const std::vector<float> x = values(50, 70);
  const Rows<const float> source{x.data(), 50, 70, 70};
  for (const Operand& cast : casts())
    for (const Contract along : {Contract::cols, Contract::rows}) {
      QuantizeOptions options = options_of(along);
      options.hadamard = {.size = 32, .signs = {0xD7E8D7E8u, 0, 0, 0}};
      expect_as_ref(quantize(source, cast, options, {2}), source, options);
    }
}

// The amax of the whole lies in the last of several panels.
TEST(Quantize, PanelsHaveTheScalesOfTheWhole) {
  std::vector<float> x = values(131, 70);
  x[130 * 70 + 69] = 370.0f;
  cpu::Workspace workspace({1});
  for (const float special : {1.0f, kInfinite, kNotANumber}) {
    x[77] = special;
    const Rows<const float> source{x.data(), 131, 70, 70};
    for (const Operand& cast : casts())
      for (const Contract along : {Contract::cols, Contract::rows}) {
        QuantizeOptions options = options_of(along);
        options.panel_values = 1;
        ASSERT_GT(NarrowEncoder(workspace, {cast, options, 131, 70}).panels().size(), 8U);
        expect_as_ref(quantize(source, cast, options, {2}), source, options);
      }
  }
}

// Rows that are worked on in parts, each part as rows of its own.
TEST(Quantize, LongRowsHaveTheBitsOfWholeOnes) {
  constexpr int64_t kCols = 70'003;
  const std::vector<float> x = values(2, kCols);
  for (const int64_t rows : {1, 2}) {
    const Rows<const float> source{x.data(), rows, kCols, kCols};
    for (const Operand& cast : casts()) {
      QuantizeOptions options = options_of(Contract::cols);
      options.panel_values = 66'000;
      expect_as_ref(quantize(source, cast, options, {2}), source, options);
    }
  }
}

// Blocks that the matrix does not fill, and those of the witness, take memory too.
int64_t values_held(const Operand& cast, Contract along, const Panel& panel) {
  const bool tiled = cast.block.kind == Block::Kind::tile && !cast.is_unscaled();
  int64_t rows = tiled ? cast.block.rows : 1, cols = tiled ? cast.block.cols : 1;
  if (along == Contract::rows) std::swap(rows, cols);
  if (panel.rows == 1 && along == Contract::cols) rows = 1;  // worked on as several
  const auto ceil = [](int64_t x, int64_t multiple) { return (x + multiple - 1) / multiple; };
  return (ceil(panel.rows, rows) + (rows > 1 ? 1 : 0)) * rows * ceil(panel.cols, cols) * cols;
}

TEST(Quantize, PanelsAreSmallWhateverTheShape) {
  cpu::Workspace workspace({1});
  for (const Operand& cast : casts())
    for (const Contract along : {Contract::cols, Contract::rows})
      for (const int64_t few : {1, 2, 3, 64})
        for (const bool wide : {true, false}) {
          const int64_t rows = wide ? few : 60'000'000, cols = wide ? 60'000'000 : few;
          const QuantizeOptions options = options_of(along);
          const NarrowEncoder encoder(workspace, {cast, options, rows, cols});
          int64_t values = 0;
          for (const Panel& panel : encoder.panels()) {
            ASSERT_LE(values_held(cast, along, panel), options.panel_values)
                << describe(cast) << ' ' << rows << " x " << cols;
            values += panel.rows * panel.cols;
          }
          EXPECT_EQ(values, rows * cols);
        }
}

// Groups of rows stay together, also where their scales look beyond a panel.
TEST(Quantize, RowsTogetherHaveTheBitsOfOthers) {
  constexpr int64_t kRows = 12, kCols = 2'600;
  const std::vector<float> x = values(kRows, kCols);
  const Rows<const float> source{x.data(), kRows, kCols, kCols};
  cpu::Workspace workspace({1});
  for (const Operand& cast : casts()) {
    QuantizeOptions options = options_of(Contract::cols);
    options.panel_values = 20'000;
    options.rows_together = 6;
    expect_as_ref(quantize(source, cast, options, {2}), source, options);
    options.panel_values = 8'000;
    expect_as_ref(quantize(source, cast, options, {2}), source, options);
    const bool tiled = cast.block.kind == Block::Kind::tile && cast.block.rows > 1;
    if (tiled && !cast.is_unscaled()) continue;  // a tile's rows come first
    for (const Panel& panel : NarrowEncoder(workspace, {cast, options, kRows, kCols}).panels())
      ASSERT_TRUE(panel.rows % 6 == 0 && panel.cols < kCols) << describe(cast);
  }
}

// Where the scale cannot grow further even the amax may be rounded to zero, by a draw of its own.
TEST(Quantize, PanelsCountOnlyTheirOwnValues) {
  std::vector<float> x(size_t{9} * 64, 0.0f);
  const Rows<const float> source{x.data(), 9, 64, 64};
  for (const char* name : {"fp8_e4m3", "nvfp4"}) {
    x[0] = name[0] == 'f' ? 2e-42f : 6e-41f;
    for (uint64_t seed = 0; seed < 16; ++seed) {
      QuantizeOptions options = options_of(Contract::cols);
      options.key.seed = seed;
      options.panel_values = 1;
      const NarrowMatrix q = quantize(source, stochastic(operand_of(name), 16), options, {1});
      const bool is_flushed = dequantize(q, {1})[0] == 0;
      EXPECT_EQ(q.counts.flushed, is_flushed ? 1U : 0U) << name << ' ' << seed;
    }
  }
}

TEST(Quantize, EmptyMatricesKeepTheirScales) {
  const float none = 0;
  const NarrowMatrix rows = quantize({&none, 0, 32, 32}, operand_of("mxfp4"), {}, {1});
  EXPECT_EQ(rows.grid.rows, 0);
  EXPECT_EQ(rows.grid.cols, 1);
  const NarrowMatrix cols = quantize({&none, 3, 0, 0}, operand_of("int8"), {}, {1});
  EXPECT_EQ(cols.scales, (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(quantize({&none, 0, 0, 0}, operand_of("fp8_e4m3"), {}, {1}).scales.size(), 1U);
  constexpr int64_t kMany = int64_t{1} << 23;  // more than a panel takes
  EXPECT_EQ(quantize({&none, kMany, 0, 0}, operand_of("mxfp4"), {}, {1}).rows, kMany);
  EXPECT_EQ(quantize({&none, 0, kMany, kMany}, operand_of("mxfp4"), {}, {1}).cols, kMany);
}

// ---------------------------------------------------------------- by the scalar definition

Operand affine(const char* element, Block block) {
  Operand operand = unscaled(element);
  operand.scale = ScaleKind::fp32;
  operand.block = block;
  return operand;
}

TEST(Affine, TheWorkedExample) {  // formats.md §6
  const std::vector<float> x = {-1, 0.2f, 2};
  const NarrowMatrix q = quantize({x.data(), 1, 3, 3}, affine("uint8", {}), {}, {1});
  EXPECT_EQ(q.codes, (std::vector<uint16_t>{0, 102, 255}));
  EXPECT_EQ(q.zeros, std::vector<uint8_t>{85});
  EXPECT_NEAR(q.scales[0], 0.0117647, 5e-8);
  EXPECT_EQ(dequantize(q, {1})[1], 17 * q.scales[0]);
}

TEST(Affine, EveryBlockHasItsOwnRange) {
  const std::vector<float> x = values(37, 45);
  const Rows<const float> source{x.data(), 37, 45, 45};
  const Block row = {Block::Kind::row, 0, 0};
  for (const char* element : {"uint8", "uint4"})
    for (const Block& block : {Block{}, row, tile(1, 16), tile(16, 16)})
      for (const Contract along : {Contract::cols, Contract::rows}) {
        const uint32_t levels = element_format(element).bits == 8 ? 255 : 15;
        QuantizeOptions options = options_of(along);
        options.panel_values = 200;
        const NarrowMatrix q = quantize(source, affine(element, block), options, {2});
        std::vector<float> low(q.scales.size()), high(q.scales.size());
        for (int64_t r = 0; r < 37; ++r)
          for (int64_t c = 0; c < 45; ++c) {
            const auto at = static_cast<size_t>(q.grid.at(r, c));
            low[at] = std::min(low[at], source.row(r)[c]);
            high[at] = std::max(high[at], source.row(r)[c]);
          }
        for (int64_t r = 0; r < 37; ++r)
          for (int64_t c = 0; c < 45; ++c) {
            const auto at = static_cast<size_t>(q.grid.at(r, c));
            const AffineScale want = affine_scale_of(low[at], high[at], levels);
            ASSERT_EQ(q.scales[at], want.scale);
            ASSERT_EQ(q.zeros[at], want.zero);
            const float code =
                std::nearbyint(source.row(r)[c] / want.scale) + static_cast<float>(want.zero);
            ASSERT_EQ(static_cast<float>(q.codes[static_cast<size_t>(r * 45 + c)]),
                      std::clamp(code, 0.0f, static_cast<float>(levels)));
          }
      }
}

TEST(Affine, LongRowsHaveTheBitsOfWholeOnes) {
  constexpr int64_t kCols = 70'003;
  const std::vector<float> x = values(2, kCols);
  const Rows<const float> source{x.data(), 2, kCols, kCols};
  for (const Block& block : {Block{}, Block{Block::Kind::row, 0, 0}, tile(1, 32), tile(16, 16)}) {
    const Operand cast = stochastic(affine("uint8", block), 16);
    QuantizeOptions options = options_of(Contract::cols);
    const NarrowMatrix whole = quantize(source, cast, options, {2});
    options.panel_values = 66'000;
    const NarrowMatrix parts = quantize(source, cast, options, {2});
    EXPECT_EQ(parts.codes, whole.codes);
    EXPECT_EQ(parts.scales, whole.scales);
    EXPECT_EQ(parts.zeros, whole.zeros);
    EXPECT_EQ(parts.counts.flushed, whole.counts.flushed);
  }
}

TEST(Affine, StochasticRoundingIsUnbiasedOverAllDraws) {
  // 0.25 above code 85 of the worked example's scale; 8 bits: 64 of 256 draws go up.
  const float scale = affine_scale_of(-1, 2, 255).scale;
  std::vector<float> x(4096, 0.25f * scale);
  x[0] = -1;
  x[1] = 2;
  const Operand cast = stochastic(affine("uint8", {}), 8);
  const NarrowMatrix q = quantize({x.data(), 1, 4096, 4096}, cast, options_of(Contract::cols), {1});
  for (int64_t c = 2; c < 4096; ++c) {
    const uint32_t r = random_bits(options_of(Contract::cols).key, 0, uint64_t(c), 4096, 8);
    const float t = x[2] / q.scales[0] * 256;
    const bool up = std::floor(t) + static_cast<float>(r) >= 256;
    ASSERT_EQ(q.codes[static_cast<size_t>(c)], 85 + up) << c;
  }
}

// Kept as bytes, they are the same codes and stand for the same values: along rows and columns, in
// panels of few values and in one, of a single long row too.
TEST(Quantize, CodesThatLieInBytesAreTheSame) {
  const std::vector<float> x = values(131, 70);
  for (const Operand& cast : casts()) {
    if (cast.element->bits > 8) continue;
    for (const Rows<const float> source : {Rows<const float>{x.data(), 131, 70, 70},
                                           Rows<const float>{x.data(), 1, 131 * 70, 131 * 70}})
      for (const Contract along : {Contract::cols, Contract::rows}) {
        QuantizeOptions options = options_of(along);
        const NarrowMatrix want = quantize(source, cast, options, {1});
        for (const int64_t panel_values : {int64_t{1}, int64_t{3000}, options.panel_values}) {
          options.panel_values = panel_values;
          std::vector<uint8_t> bytes;
          const NarrowMatrix have = quantize_to_bytes(source, cast, options, {2}, bytes);
          EXPECT_TRUE(have.codes.empty());
          ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), want.codes.begin(), want.codes.end()))
              << describe(cast) << ' ' << source.rows << ' ' << panel_values;
          EXPECT_EQ(have.scale_codes, want.scale_codes);
          std::vector<float> decoded(131 * 70);
          dequantize(have, bytes, {decoded.data(), source.rows, source.cols, source.cols}, {3});
          expect_same_bits(decoded, dequantize(want, {1}), describe(cast));
        }
      }
  }
}

TEST(Quantize, ElementsThatNoGemmTakes) {
  const std::vector<float> x = {1.5f, 3, -1, 0, 500, kInfinite, kNotANumber, 1e-9f};
  const Rows<const float> source{x.data(), 2, 4, 4};
  for (const char* element : {"e8m0", "ue4m3", "uint8"}) {
    const NarrowMatrix q = quantize(source, unscaled(element), {}, {2});
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_EQ(q.codes[i], encode(element_format(element), x[i])) << element << ' ' << x[i];
    EXPECT_EQ(q.counts.nan, 1U);
    EXPECT_EQ(q.counts.inf, 1U);
  }
}

}  // namespace
}  // namespace ng
