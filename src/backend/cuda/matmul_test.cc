// The emulated cuBLASLt: products, and what a card's library would refuse.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backend/cuda/emulated/block.h"
#include "backend/cuda/emulated/matmul.h"
#include "format/codec.h"
#include "math/bf16.h"

namespace ng::cuda {
namespace {

using emulated::Device;
using emulated::Fault;
using Type = MatmulType;
using Scale = MatmulScale;

alignas(16) constexpr std::byte kMemory[16] = {};

/// 64 x 48 x 32, as FP8 has to lie; pointers are aligned, nothing reads them.
Matmul tn_product(Type a, Type b, Scale scale, Type d = Type::bf16) {
  Matmul p{.m = 64, .n = 48, .k = 32, .a = {}, .b = {}};
  p.a = {.type = a, .transposed = true, .leading = 32, .data = kMemory, .scale = scale};
  p.b = {.type = b, .transposed = false, .leading = 32, .data = kMemory, .scale = scale};
  p.a.scales = p.b.scales = kMemory;
  p.d_type = d;
  p.d_leading = 64;
  return p;
}

std::string refused(int sm, const Matmul& p) { return matmul_refusal(card_of(sm), p); }

void expect_refused(int sm, const Matmul& p, const std::string& part) {
  const std::string text = refused(sm, p);
  EXPECT_NE(text.find(part), std::string::npos) << "\"" << text << "\" lacks \"" << part << "\"";
  Device device(card_of(sm));
  EXPECT_THROW(emulated::matmul(device, p), Fault);
}

TEST(CudaMatmul, AWrongLeadingDimensionIsRefused) {
  Matmul p = tn_product(Type::e4m3, Type::e4m3, Scale::tensor);
  EXPECT_EQ(refused(90, p), "");
  p.a.leading = 31;
  expect_refused(90, p, "leading dimension 31 of A is below its 32 rows");
  p.a.leading = 40;
  expect_refused(90, p, "leading dimension 40 of A (E4M3) is no multiple of 16 bytes");
  p.a.leading = 48;
  EXPECT_EQ(refused(90, p), "");
  p.d_leading = 63;
  expect_refused(90, p, "leading dimension 63 of D is below its 64 rows");
  p.d_leading = 68;
  expect_refused(90, p, "leading dimension 68 of D (BF16) is no multiple of 16 bytes");
  p.d_leading = 72;
  EXPECT_EQ(refused(90, p), "");
  p.b.data = kMemory + 8;
  expect_refused(90, p, "B does not begin at a multiple of 16 bytes");
  p.b.data = kMemory;
  p.k = 24;
  expect_refused(90, p, "k 24 is no multiple of 16");
}

TEST(CudaMatmul, FP8IsTurnedOnlyWhereTheLibraryTakesIt) {
  Matmul p = tn_product(Type::e4m3, Type::e5m2, Scale::tensor);
  p.a.transposed = false;
  p.a.leading = 64;
  for (const int sm : {89, 90, 120})
    expect_refused(sm, p, "E4M3: A has to be transposed and B not");
  EXPECT_EQ(refused(100, p), "");
  Matmul bf16 = p;
  bf16.a.type = bf16.b.type = Type::bf16;
  bf16.a.scale = bf16.b.scale = Scale::none;
  for (const Card& card : cards()) EXPECT_EQ(refused(card.sm, bf16), "");
}

TEST(CudaMatmul, EachCardHasItsTypesAndScales) {
  const auto taken_by = [](const Matmul& p) {
    std::vector<int> by;
    for (const Card& card : cards())
      if (matmul_refusal(card, p).empty()) by.push_back(card.sm);
    return by;
  };
  using Cards = std::vector<int>;
  const auto both = [](Type type, Scale scale) { return tn_product(type, type, scale); };
  EXPECT_EQ(taken_by(both(Type::bf16, Scale::none)), (Cards{80, 89, 90, 100, 120}));
  EXPECT_EQ(taken_by(both(Type::e4m3, Scale::tensor)), (Cards{89, 90, 100, 120}));
  EXPECT_EQ(taken_by(both(Type::e4m3, Scale::outer)), (Cards{90}));
  EXPECT_EQ(taken_by(both(Type::e4m3, Scale::vec128)), (Cards{90}));
  EXPECT_EQ(taken_by(both(Type::e4m3, Scale::block128)), Cards{});
  EXPECT_EQ(taken_by(both(Type::e4m3, Scale::vec32_ue8m0)), (Cards{100, 120}));
  EXPECT_EQ(taken_by(both(Type::e2m1, Scale::vec16_ue4m3)), (Cards{100, 120}));
  EXPECT_EQ(taken_by(both(Type::e5m2, Scale::tensor)), Cards{});
  EXPECT_EQ(taken_by(both(Type::e4m3, Scale::none)), Cards{});
  EXPECT_EQ(taken_by(tn_product(Type::int8, Type::int8, Scale::none, Type::int32)),
            (Cards{80, 89, 90, 100, 120}));
  expect_refused(90, tn_product(Type::e5m2, Type::e5m2, Scale::tensor), "E5M2 · E5M2 to BF16");
  expect_refused(80, both(Type::e4m3, Scale::tensor), "cuBLASLt on sm_80: E4M3 with a tensor's");
}

/// op(A) · op(B) of small integers, exact in every type, as the loops say.
void expect_product(Type type, Type d_type, bool a_turned, bool b_turned) {
  constexpr int64_t kM = 20, kN = 6, kK = 32, kLead = 48;
  const auto value = [](int64_t i, int64_t k, int64_t by) { return (i * 7 + k * by) % 13 - 6; };
  const ElementFormat& e4m3 = element_format("float8_e4m3fn");
  alignas(16) std::array<std::byte, kLead * kLead * 4> a{}, b{};
  const auto fill = [&](auto& memory, int64_t lines, bool by_lines, int64_t by) {
    for (int64_t i = 0; i < lines; ++i)
      for (int64_t k = 0; k < kK; ++k) {
        const int64_t at = by_lines ? i * kLead + k : k * kLead + i, v = value(i, k, by);
        if (type == Type::bf16)
          reinterpret_cast<Bf16*>(memory.data())[at] = to_bf16(static_cast<float>(v));
        else if (type == Type::int8)
          reinterpret_cast<int8_t*>(memory.data())[at] = static_cast<int8_t>(v);
        else
          memory[static_cast<size_t>(at)] = std::byte(encode(e4m3, static_cast<float>(v)));
      }
  };
  fill(a, kM, a_turned, 3);
  fill(b, kN, !b_turned, 5);
  std::vector<float> row_scales(kM, 2.0f), column_scales(kN, 0.5f);
  row_scales[3] = 4.0f;
  const bool outer = type == Type::e4m3;
  const Scale scale = outer ? Scale::outer : Scale::none;
  std::vector<float> d(kN * kLead, 1.0f);
  const Matmul p{.m = kM,
                 .n = kN,
                 .k = kK,
                 .a = {type, a_turned, kLead, a.data(), scale, row_scales.data()},
                 .b = {type, b_turned, kLead, b.data(), scale, column_scales.data()},
                 .d_type = d_type,
                 .d_leading = kLead,
                 .d = d.data(),
                 .add = d_type == Type::fp32};
  Device device(card_of(90));
  emulated::matmul(device, p);
  for (int64_t i = 0; i < kM; ++i)
    for (int64_t j = 0; j < kN; ++j) {
      int64_t sum = 0;
      for (int64_t k = 0; k < kK; ++k) sum += value(i, k, 3) * value(j, k, 5);
      const size_t at = static_cast<size_t>(j * kLead + i);
      if (d_type == Type::int32)
        EXPECT_EQ(reinterpret_cast<const int32_t*>(d.data())[at], sum);
      else
        EXPECT_EQ(d[at], static_cast<float>(sum * (outer && i == 3 ? 2 : 1) + 1));
    }
}

TEST(CudaMatmul, ProductsAreThoseOfTheLoops) {
  for (const bool a_turned : {false, true})
    for (const bool b_turned : {false, true})
      expect_product(Type::bf16, Type::fp32, a_turned, b_turned);
  expect_product(Type::e4m3, Type::fp32, true, false);
  expect_product(Type::int8, Type::int32, true, false);
}

TEST(CudaMatmul, ScalesThatAreMissingOrOutOfLineAreRefused) {
  Matmul p = tn_product(Type::e4m3, Type::e4m3, Scale::outer);
  EXPECT_EQ(refused(90, p), "");
  p.b.scales = kMemory + 4;
  expect_refused(90, p, "scales of rows do not begin at a multiple of 16 bytes");
  p.b.scales = nullptr;
  expect_refused(90, p, "no scales of rows");
}

// [cuBLAS 13.0, "1D Block Scaling Factors Layout"]: 128 rows by 4 blocks, 32 rows 16 bytes apart.
TEST(CudaMatmul, ScalesOfBlocksLieInTilesOf128By4) {
  constexpr int64_t kBlocks = 6;  // two tiles along K
  EXPECT_EQ(block_scale_at(0, 0, kBlocks), 0);
  EXPECT_EQ(block_scale_at(0, 3, kBlocks), 3);
  EXPECT_EQ(block_scale_at(1, 0, kBlocks), 16);
  EXPECT_EQ(block_scale_at(31, 3, kBlocks), 499);
  EXPECT_EQ(block_scale_at(32, 0, kBlocks), 4);
  EXPECT_EQ(block_scale_at(127, 3, kBlocks), 511);
  EXPECT_EQ(block_scale_at(0, 4, kBlocks), 512);
  EXPECT_EQ(block_scale_at(128, 0, kBlocks), 1024);
  EXPECT_EQ(block_scale_bytes(129, kBlocks), 2048);
}

}  // namespace
}  // namespace ng::cuda
