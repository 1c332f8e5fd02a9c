#include "format/dot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "format/codec.h"
#include "format/scale.h"
#include "io/safetensors.h"

namespace ng {
namespace {

using Codes = std::vector<uint16_t>;

// The bytes worked in formats.md §3.5: x = [7, -2.5, 0.3, 0.75, -5, 0.2, 1.25, -0.1, 0 ...].
const Codes kWorked = {0x7, 0xC, 0x1, 0x2, 0xE, 0x0, 0x2, 0x8};

TEST(BlockDot, WorkedBlocks) {
  const ElementFormat& e2m1 = element_format("e2m1");
  const NarrowBlock floor = {&e2m1, kWorked, ScaleKind::e8m0, e8m0_value(0x7F)};
  const Codes even = {0x6, 0xA, 0x0, 0x1, 0xC, 0x0, 0x1, 0x8};
  const NarrowBlock rceil = {&e2m1, even, ScaleKind::e8m0, e8m0_value(0x80)};
  // 6 -2 .5 1 -4 0 1 -0 times itself, and times 8 -2 0 1 -4 0 1 -0
  EXPECT_EQ(block_dot(floor, floor), 36 + 4 + 0.25f + 1 + 16 + 1);
  EXPECT_EQ(block_dot(floor, rceil), 48 + 4 + 1 + 16 + 1);
  const NarrowBlock nvfp4 = {&e2m1, kWorked, ScaleKind::e4m3, 0.8125f};
  EXPECT_EQ(block_dot(nvfp4, floor), 58.25f * 0.8125f) << "NVFP4 x MXFP4";
  EXPECT_EQ(block_dot(nvfp4, nvfp4), 58.25f * 0.8125f * 0.8125f);
}

TEST(BlockDot, ScalesAddInTheExponent) {
  const ElementFormat& e2m1 = element_format("e2m1");
  const auto block = [&](uint32_t code) {
    return NarrowBlock{&e2m1, kWorked, ScaleKind::e8m0, e8m0_value(code)};
  };
  // 2^(ca + cb - 254) · 58.25, where neither scale nor product need be normal.
  EXPECT_EQ(block_dot(block(0), block(254)), 58.25f);
  EXPECT_EQ(block_dot(block(0), block(115)), std::ldexp(58.25f, -139)) << "subnormal";
  EXPECT_EQ(block_dot(block(0), block(0)), 0.0f);
  EXPECT_EQ(block_dot(block(254), block(254)), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(block_dot(block(0xFF), block(127))));
  EXPECT_TRUE(std::isnan(block_dot(block(127), block(0xFF))));
}

TEST(BlockDot, SumsOfFp8AreOneFmaChain) {
  const ElementFormat& e4m3 = element_format("e4m3");
  const ElementFormat& e5m2 = element_format("e5m2");
  Codes a, b;
  float chain = 0;
  for (uint16_t i = 0; i < 32; ++i) {
    a.push_back(static_cast<uint16_t>(i * 37 % 127));
    b.push_back(static_cast<uint16_t>(i * 53 % 120 + (i % 2) * 128));
    chain = std::fma(decode(e4m3, a.back()), decode(e5m2, b.back()), chain);
  }
  EXPECT_EQ(block_dot({&e4m3, a, ScaleKind::e8m0, 0.5f}, {&e5m2, b, ScaleKind::e8m0, 4.0f}),
            chain * 2);
}

TEST(GeneralDot, Mxfp4AddsGroupsOfFourBlocksInFp64) {
  const ElementFormat& e2m1 = element_format("e2m1");
  // Block sums 2^24, 1, 1, -2^24 in one group of 128, then 3: each code 2 is a one.
  Codes a(160, 0), ones(160, 0);
  for (size_t block = 0; block < 5; ++block) a[32 * block] = ones[32 * block] = 0x2;
  a[96] = 0xA;   // -1
  a[128] = 0x5;  // 3
  const std::vector<float> scales = {0x1p24f, 1, 1, 0x1p24f, 1}, unit(5, 1.0f);
  const NarrowRow left = {&e2m1, a, ScaleKind::e8m0, 32, scales};
  const NarrowRow right = {&e2m1, ones, ScaleKind::e8m0, 32, unit};
  EXPECT_EQ(general_dot(left, right), 5.0f);
  const ElementFormat& e2m3 = element_format("e2m3");
  const Codes six_ones = [&] {
    Codes codes(160, 0);
    for (size_t block = 0; block < 5; ++block)
      codes[32 * block] = static_cast<uint16_t>(encode(e2m3, 1.0f));
    return codes;
  }();
  EXPECT_EQ(general_dot(left, NarrowRow{&e2m3, six_ones, ScaleKind::e8m0, 32, unit}), 3.0f)
      << "others add block by block in FP32: 2^24 + 1 stays 2^24, twice";
}

TEST(GeneralDot, AnEmptyRowGivesZeroAndShapesMustAgree) {
  const ElementFormat& e2m1 = element_format("e2m1");
  const NarrowRow none = {&e2m1, {}, ScaleKind::e8m0, 32, {}};
  EXPECT_EQ(general_dot(none, none), 0.0f);
  const std::vector<float> one = {1.0f};
  const NarrowRow row = {&e2m1, kWorked, ScaleKind::e8m0, 32, one};
  EXPECT_EQ(general_dot(row, row), 58.25f) << "padded with zeros to 32";
  EXPECT_THROW((void)general_dot(row, none), InternalError);
  EXPECT_THROW((void)general_dot(row, NarrowRow{&e2m1, kWorked, ScaleKind::e8m0, 4, one}),
               InternalError);
  const std::vector<float> three(3, 1.0f);
  EXPECT_THROW((void)general_dot(row, NarrowRow{&e2m1, kWorked, ScaleKind::e8m0, 3, three}),
               InternalError);
}

/// One side of a case of the golden products: its codes and scales alone, nothing quantized.
struct Golden {
  Golden(const io::Safetensors& file, const std::string& name, const Operand& cast, int64_t length)
      : operand(cast), k(length) {
    const uint32_t mask = static_cast<uint32_t>(code_count(*cast.element) - 1);
    for (const int64_t code : io::to_integers(file.at(name + ".codes")))
      codes.push_back(static_cast<uint16_t>(static_cast<uint32_t>(code) & mask));
    const io::SafetensorsEntry& entry = file.at(name + ".scale");
    const std::vector<float> stored = io::to_floats(entry);
    for (const float s : stored)
      scales.push_back(cast.scale == ScaleKind::fp32 ? 1 / s
                       : cast.scale == ScaleKind::e8m0
                           ? e8m0_value(static_cast<uint32_t>(s))
                           : decode_float(e4m3_grid(), static_cast<uint32_t>(s)));
    if (cast.scale == ScaleKind::e4m3)
      tensor_scale = 1 / io::to_floats(file.at(name + ".encode_scale")).at(0);
    blocks = cast.scale == ScaleKind::fp32 ? 1 : entry.shape.at(1);
  }
  [[nodiscard]] NarrowRow row(int64_t r) const {
    const bool tiled = operand.block.kind == Block::Kind::tile;
    const int64_t first = tiled ? r / operand.block.rows * blocks : 0;
    return {.element = operand.element,
            .codes = std::span(codes).subspan(static_cast<size_t>(r * k), static_cast<size_t>(k)),
            .kind = operand.scale,
            .block = tiled ? operand.block.cols : 0,
            .scales =
                std::span(scales).subspan(static_cast<size_t>(first), static_cast<size_t>(blocks)),
            .tensor_scale = tensor_scale};
  }

  Operand operand;
  int64_t k = 0, blocks = 0;
  Codes codes;
  std::vector<float> scales;
  float tensor_scale = 1;
};

std::pair<Operand, Operand> operands_of(const std::string& kind) {
  const auto of = [](const std::string& name) {
    if (!name.ends_with("_2d")) return operand_of(name);
    Operand tiles = operand_of("nvfp4");
    tiles.block.rows = 16;
    return tiles;
  };
  const std::map<std::string, std::pair<std::string, std::string>> mixed = {
      {"mxfp8_e4m3_x_e5m2", {"mxfp8_e4m3", "mxfp8_e5m2"}},
      {"mxfp8_e4m3_x_mxfp4", {"mxfp8_e4m3", "mxfp4"}},
      {"nvfp4_1d_x_1d", {"nvfp4", "nvfp4"}},
      {"nvfp4_1d_x_2d", {"nvfp4", "nvfp4_2d"}},
      {"fp8_e5m2_x_e4m3", {"fp8_e5m2", "fp8_e4m3"}}};
  const auto found = mixed.find(kind);
  if (found == mixed.end()) return {of(kind), of(kind)};
  return {of(found->second.first), of(found->second.second)};
}

TEST(GeneralDot, GoldenProductsFromTheirCodesAndScales) {
  const io::Safetensors file(NG_SOURCE_DIR "/tests/golden/gemm/gemm.safetensors");
  const Json cases = Json::parse(file.metadata().at("cases"));
  int64_t outputs = 0;
  for (const auto& [name, parameters] : cases.items()) {
    const int64_t m = parameters.at("M"), k = parameters.at("K"), n = parameters.at("N");
    const auto [left, right] = operands_of(parameters.at("kind"));
    const Golden a(file, name + ".A", left, k), b(file, name + ".B", right, k);
    const std::vector<float> c = io::to_floats(file.at(name + ".C"));
    const std::vector<float> abs_c = io::to_floats(file.at(name + ".absC"));
    const double per_abs = 4e-7 * std::ceil(std::log2(static_cast<double>(k)) + 2);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j, ++outputs) {
        const auto at = static_cast<size_t>(i * n + j);
        ASSERT_NEAR(general_dot(a.row(i), b.row(j)), c[at], per_abs * abs_c[at])
            << name << " " << at;
      }
  }
  EXPECT_GT(outputs, 1000);
}

}  // namespace
}  // namespace ng
