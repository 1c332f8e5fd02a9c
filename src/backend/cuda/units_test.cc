// GEMMs by the matrix units of emulated cards: which products the library is asked for, and what
// comes out beside the kernels, which have the bits of `ref`.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/emulated/matmul.h"
#include "backend/cuda/kernels/perform.h"
#include "backend/cuda/route.h"
#include "support/prepared_operand.h"

namespace ng::cuda {
namespace {

using emulated::Device;

/// The emulated library, which keeps what it was asked for.
class KeptProducts final : public Units {
 public:
  explicit KeptProducts(Device& device) : device_(device) {}
  [[nodiscard]] const Card& card() const override { return device_.card(); }
  [[nodiscard]] std::string refusal(const Matmul& product) override {
    for (const MatmulType lacking : lacks)
      if (product.a.type == lacking) return "none on this card";
    return matmul_refusal(device_.card(), product);
  }
  void multiply(const Matmul& product) override {
    products.push_back(product);
    emulated::matmul(device_, product);
  }
  std::vector<Matmul> products;
  std::vector<MatmulType> lacks;  ///< operands that it has no algorithm for

 private:
  Device& device_;
};

/// An operand in a card's layout.
class OnCard {
 public:
  OnCard(Device& device, const OperandSpec& spec, const ConstView& source)
      : storage_(operand_bytes(spec) / sizeof(float) + 1) {
    packed = {.spec = spec,
              .source = source,
              .storage = reinterpret_cast<std::byte*>(storage_.data()),
              .bytes = operand_bytes(spec)};
    std::vector<std::byte> scratch(1 << 16);
    perform(&device, Prepare{.packed = &packed, .source = source, .context = {}},
            Scratch{scratch.data(), scratch.size()});
  }
  PackedOperand packed;

 private:
  std::vector<float> storage_;
};

constexpr int64_t kM = 32, kN = 48, kK = 256;
struct Sizes {
  int64_t m = kM, n = kN;
};
constexpr size_t kMuchScratch = size_t{1} << 20;

/// Products of one pair of operands on one card.
struct Products {
  explicit Products(int sm, const Operand& left, const Operand& right, std::vector<float> a_values,
                    std::vector<float> b_values, const Sizes& of = {})
      : sizes(of),
        device(card_of(sm), 1),
        units(device),
        a_source(std::move(a_values)),
        b_source(std::move(b_values)),
        a(device, ref::spec_of(left, ref::view_of(a_source, of.m, kK), Contract::cols, 128),
          ref::view_of(a_source, of.m, kK)),
        b(device, ref::spec_of(right, ref::view_of(b_source, of.n, kK), Contract::cols, 128),
          ref::view_of(b_source, of.n, kK)) {}
  Products(int sm, const std::string& left, const std::string& right, const Sizes& of = {})
      : Products(sm, operand_of(left), operand_of(right), ref::normals(of.m * kK, 1),
                 ref::normals(of.n * kK, 2), of) {}

  /// By the kernels where `scratch_bytes` is 0.
  std::vector<float> multiply(size_t scratch_bytes) {
    std::vector<float> y(static_cast<size_t>(sizes.m * sizes.n), -1.0f);
    std::vector<float> scratch(scratch_bytes / sizeof(float) + 4);
    void* begin = scratch.data();
    size_t room = scratch_bytes + 16;
    std::align(16, scratch_bytes, begin, room);  // as memory of a card is
    const View there(reinterpret_cast<std::byte*>(y.data()), fp32_format(), sizes.m, sizes.n,
                     sizes.n);
    perform(
        &device, Gemm{.y = there, .a = &a.packed, .b = &b.packed},
        {scratch_bytes > 0 ? &units : nullptr, {static_cast<std::byte*>(begin), scratch_bytes}});
    return y;
  }

  Sizes sizes;
  Device device;
  KeptProducts units;
  std::vector<float> a_source, b_source;
  OnCard a, b;
};

double largest_difference(const std::vector<float>& x, const std::vector<float>& z) {
  double largest = 0;
  for (size_t i = 0; i < x.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(x[i]) - z[i]));
  return largest;
}

// Of 256 products of about normal values: in another order they are off by less than 1e-4.
TEST(CudaUnits, EachRouteIsAskedForAndComesOutBesideTheKernels) {
  struct Case {
    int sm;
    std::string left, right;
    MatmulType type;  ///< of the right one
    MatmulScale scale;
    MatmulType left_type;
  };
  const Case cases[] = {
      {80, "bf16", "mxfp4", MatmulType::bf16, MatmulScale::none, MatmulType::bf16},
      {80, "nvfp4", "nvfp4", MatmulType::bf16, MatmulScale::none, MatmulType::bf16},
      {80, "int8", "int8", MatmulType::int8, MatmulScale::none, MatmulType::int8},
      {89, "mxfp4", "mxfp4", MatmulType::e4m3, MatmulScale::tensor, MatmulType::e5m2},
      {90, "fp8_e4m3", "fp8_e4m3", MatmulType::e4m3, MatmulScale::tensor, MatmulType::e4m3},
      {90, "mxfp4", "mxfp4", MatmulType::e4m3, MatmulScale::outer, MatmulType::e5m2},
      {90, "mxfp6_e3m2", "mxfp4", MatmulType::e4m3, MatmulScale::outer, MatmulType::e5m2},
      {100, "nvfp4", "nvfp4", MatmulType::e2m1, MatmulScale::vec16_ue4m3, MatmulType::e2m1},
      {100, "mxfp4", "mxfp8_e4m3", MatmulType::e4m3, MatmulScale::vec32_ue8m0, MatmulType::e4m3},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.left + " " + c.right + " on " + std::to_string(c.sm));
    Products products(c.sm, c.left, c.right);
    const std::vector<float> exact = products.multiply(0);
    ASSERT_TRUE(products.units.products.empty());
    EXPECT_LT(largest_difference(products.multiply(kMuchScratch), exact), 1e-4);
    ASSERT_EQ(products.units.products.size(), 1u);
    const Matmul& product = products.units.products.front();  // the right operand is the first
    EXPECT_EQ(product.a.type, c.type);
    EXPECT_EQ(product.b.type, c.left_type);
    for (const MatmulOperand* x : {&product.a, &product.b}) EXPECT_EQ(x->scale, c.scale);
  }
}

TEST(CudaUnits, SumsOfIntegersAndOfFewFoldedProductsHaveTheBitsOfRef) {
  Products int8(90, "int8", "int8");
  EXPECT_EQ(int8.multiply(kMuchScratch), int8.multiply(0));
  // Magnitudes of one binade, so that no sum needs more than 24 bits.
  std::vector<float> a = ref::normals(kM * kK, 3), b = ref::normals(kN * kK, 4);
  for (std::vector<float>* x : {&a, &b})
    for (float& value : *x) value = std::copysign(1 + std::abs(value) / 4, value);
  Products mxfp4(90, operand_of("mxfp4"), operand_of("mxfp4"), a, b);
  EXPECT_EQ(mxfp4.multiply(kMuchScratch), mxfp4.multiply(0));
  EXPECT_EQ(mxfp4.units.products.size(), 1u);
}

// Rows 5 and 130 of A have blocks 31 binades apart, which E5M2 does not reach; row 7 of B 16, which
// E4M3 does not; row 9 of A a NaN, row 11 nothing but zeros. Whole, and in pieces.
TEST(CudaUnits, RowsThatDoNotFoldAreComputedByTheKernels) {
  const Sizes sizes{.m = 140, .n = kN};
  std::vector<float> a = ref::normals(sizes.m * kK, 5), b = ref::normals(sizes.n * kK, 6);
  const auto spread = [](std::vector<float>& x, int64_t row, int binades) {
    for (int64_t k = 0; k < kK; ++k) {
      float& value = x[static_cast<size_t>(row * kK + k)];
      value = std::copysign(std::ldexp(1.0f, k < kK / 2 ? 0 : -binades), value);
    }
  };
  spread(a, 5, 31);
  spread(a, 130, 31);
  spread(a, 6, 16);  // within reach of A
  spread(b, 7, 16);
  a[9 * kK + 40] = std::nanf("");
  for (int64_t k = 0; k < kK; ++k) a[static_cast<size_t>(11 * kK + k)] = 0;
  Products products(90, operand_of("mxfp4"), operand_of("mxfp4"), a, b, sizes);
  const std::vector<float> exact = products.multiply(0);
  for (const size_t scratch : {kMuchScratch, size_t{70} << 10}) {
    products.units.products.clear();
    const std::vector<float> got = products.multiply(scratch);
    EXPECT_EQ(products.units.products.size(), scratch == kMuchScratch ? 1u : 2u);
    for (int64_t row = 0; row < sizes.m; ++row)
      for (int64_t col = 0; col < sizes.n; ++col) {
        const auto at = static_cast<size_t>(row * sizes.n + col);
        if (row == 9) {
          EXPECT_TRUE(std::isnan(got[at])) << col;
        } else if (row == 5 || row == 11 || row == 130 || col == 7) {
          EXPECT_EQ(got[at], exact[at]) << row << ", " << col;
        } else {
          EXPECT_NEAR(got[at], exact[at], 1e-4) << row << ", " << col;
        }
      }
  }
}

// Two by two of 128 rows and of those that are left, for which the scratch is just enough; scales
// of blocks in tiles of 128 rows, held for sm_100.
TEST(CudaUnits, PiecesAreThoseOfTheWhole) {
  struct Case {
    int sm;
    const char* format;
    size_t scratch;
  };
  for (const Case& c : {Case{90, "mxfp4", 136 << 10},
                        {90, "nvfp4", 200 << 10},
                        {90, "int8", 136 << 10},
                        {100, "nvfp4", 110 << 10},
                        {100, "mxfp8_e4m3", 136 << 10}}) {
    SCOPED_TRACE(c.format);
    Products products(c.sm, c.format, c.format, {.m = 150, .n = 140});
    const std::vector<float> whole = products.multiply(kMuchScratch);
    EXPECT_EQ(products.units.products.size(), 1u);
    EXPECT_EQ(products.multiply(c.scratch), whole);
    EXPECT_EQ(products.units.products.size(), 5u);
    EXPECT_LT(largest_difference(whole, products.multiply(0)), 1e-4);
  }
}

// Of 1 x 128 and 128 x 128 values; in pieces of 128 rows, too.
TEST(CudaUnits, FP32ScalesOfBlocksAreHeldAsTheLibraryTakesThem) {
  const auto with_block = [](int rows) {
    Operand cast = operand_of("fp8_e4m3");
    cast.block = {.kind = Block::Kind::tile, .rows = rows, .cols = 128};
    return cast;
  };
  const Sizes sizes{.m = 150, .n = 140};
  std::vector<float> a = ref::normals(sizes.m * kK, 9), b = ref::normals(sizes.n * kK, 10);
  for (size_t i = 0; i < a.size(); ++i) a[i] = std::ldexp(a[i], static_cast<int>(i / 128 % 7) - 3);
  for (size_t i = 0; i < b.size(); ++i) b[i] = std::ldexp(b[i], static_cast<int>(i / 128 % 5) - 2);
  for (const auto& [left, right] : {std::pair(1, 128), std::pair(1, 1), std::pair(128, 1)}) {
    SCOPED_TRACE(left);
    Products products(90, with_block(left), with_block(right), a, b, sizes);
    const std::vector<float> exact = products.multiply(0), whole = products.multiply(kMuchScratch);
    ASSERT_EQ(products.units.products.size(), 1u);
    EXPECT_EQ(products.units.products[0].b.scale,
              left == 1 ? MatmulScale::vec128 : MatmulScale::block128);
    EXPECT_LT(largest_difference(whole, exact), 5e-3);
    EXPECT_EQ(products.multiply(size_t{136} << 10), whole);
    EXPECT_EQ(products.units.products.size(), 5u);
  }
}

// A card whose library lacks FP8 products takes the next route.
TEST(CudaUnits, WhatTheLibraryDoesNotComputeGoesTheNextWay) {
  Products products(90, "mxfp4", "mxfp4");
  products.units.lacks = {MatmulType::e4m3};
  const std::vector<float> exact = products.multiply(0);
  EXPECT_LT(largest_difference(products.multiply(kMuchScratch), exact), 1e-4);
  ASSERT_EQ(products.units.products.size(), 1u);
  EXPECT_EQ(products.units.products[0].a.type, MatmulType::bf16);
  products.units.lacks = {MatmulType::e4m3, MatmulType::bf16};
  EXPECT_EQ(products.multiply(kMuchScratch), exact);
  EXPECT_EQ(products.units.products.size(), 1u) << "by the kernels";
}

TEST(CudaUnits, BF16IsReadAndWrittenWhereItLies) {
  Device device(card_of(90), 2);
  KeptProducts units(device);
  const std::vector<float> a_values = ref::normals(kM * kK, 7), b_values = ref::normals(kN * kK, 8);
  const auto rounded = [](const std::vector<float>& x) {
    std::vector<Bf16> narrow;
    for (const float value : x) narrow.push_back(to_bf16(value));
    return narrow;
  };
  std::vector<Bf16> a = rounded(a_values), b = rounded(b_values), y(kM * kN);
  const auto view = [](std::vector<Bf16>& x, int64_t rows, int64_t cols) {
    return View(reinterpret_cast<std::byte*>(x.data()), bf16_format(), rows, cols, cols);
  };
  const Operand bf16 = operand_of("bf16");
  // A as it lies, (M, K); B turned: its source is (K, N).
  const ConstView a_view = view(a, kM, kK), b_view = view(b, kK, kN);
  const OnCard left(device, ref::spec_of(bf16, a_view, Contract::cols, 1), a_view);
  const OnCard right(device, ref::spec_of(bf16, b_view, Contract::rows, 1), b_view);
  const Gemm gemm{
      .y = view(y, kM, kN), .a = &left.packed, .b = &right.packed, .round = Compute::bf16};
  perform(&device, gemm, {&units, {}});
  const std::vector<Bf16> got = y;
  ASSERT_EQ(units.products.size(), 1u);
  EXPECT_EQ(units.products[0].a.data, b.data());
  EXPECT_FALSE(units.products[0].a.transposed);
  EXPECT_EQ(units.products[0].b.data, a.data());
  EXPECT_EQ(units.products[0].d, y.data());
  perform(&device, gemm, {nullptr, {}});
  for (size_t i = 0; i < y.size(); ++i)
    EXPECT_EQ(got[i].bits, y[i].bits) << i << ": one chain, as the emulated library sums";
}

/// The kinds of products that an emulated card of this kind has.
std::string products_of(int sm) {
  std::string all;
  for (const ProductMode& mode :
       make_emulated_cuda_backend({.has_units = true, .sm = sm})->product_modes())
    if (mode.refusal.empty()) all += (all.empty() ? "" : "; ") + std::string(mode.name);
  return all;
}

TEST(CudaUnits, EachCardHasItsOwnProducts) {
  EXPECT_EQ(products_of(80), "bf16; int8");
  EXPECT_EQ(products_of(89), "bf16; int8; fp8, a scale each; fp8 gradient, a scale each");
  EXPECT_EQ(products_of(90),
            "bf16; int8; fp8, a scale each; fp8 gradient, a scale each; fp8, rows and columns; "
            "fp8, 1x128; fp8, 128x128 by 1x128");
  for (const int sm : {100, 120})
    EXPECT_EQ(products_of(sm),
              "bf16; int8; fp8, a scale each; fp8 gradient, a scale each; mxfp8; nvfp4");
  EXPECT_TRUE(make_emulated_cuda_backend({})->product_modes().empty()) << "plain arithmetic";
}

}  // namespace
}  // namespace ng::cuda
