// Which means each card has for which operands, and what FP8 holds of FP4 and FP6 blocks.
#include "backend/cuda/route.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "backend/cuda/fold.h"
#include "format/codec.h"

namespace ng::cuda {
namespace {

Operand with_block(const char* format, const Block& block) {
  Operand cast = operand_of(format);
  cast.block = block;
  return cast;
}
Operand with_region(const Block& region) {
  Operand cast = operand_of("nvfp4");
  cast.tensor_block = region;
  return cast;
}

GemmForm form_of(const Operand& a, const Operand& b, int64_t k = 512) {
  GemmForm form;
  form.a = {.cast = a, .rows = 256, .k = k, .hadamard = {}};
  form.b = {.cast = b, .rows = 128, .k = k, .hadamard = {}};
  return form;
}

std::string routes(const GemmForm& form) {
  std::string all;
  for (const Card& card : cards())
    all += (all.empty() ? "" : " ") + std::string(name_of(choose_route(card, form).route));
  return all;
}
std::string routes(const char* a, const char* b) {
  return routes(form_of(operand_of(a), operand_of(b)));
}

// By sm_80, 89, 90, 100 and 120.
TEST(CudaRoutes, EachCardHasItsOwnForEachFormat) {
  EXPECT_EQ(routes("fp32", "fp32"), "kernel kernel kernel kernel kernel");
  EXPECT_EQ(routes("fp16", "bf16"), "kernel kernel kernel kernel kernel");
  EXPECT_EQ(routes("bf16", "bf16"), "bf16 bf16 bf16 bf16 bf16");
  EXPECT_EQ(routes("fp8_e4m3", "fp8_e4m3"), "bf16 fp8 fp8 fp8 fp8");
  EXPECT_EQ(routes("fp8_e5m2", "fp8_e4m3"), "bf16 fp8 fp8 fp8 fp8");
  EXPECT_EQ(routes("fp8_e5m2", "fp8_e5m2"), "bf16 bf16 bf16 bf16 bf16");
  EXPECT_EQ(routes("mxfp8_e4m3", "mxfp8_e4m3"), "bf16 bf16 bf16 mxfp8 mxfp8");
  for (const char* narrow : {"mxfp4", "mxfp6_e2m3", "mxfp6_e3m2"})
    EXPECT_EQ(routes(narrow, narrow), "bf16 folded folded mxfp8 mxfp8") << narrow;
  EXPECT_EQ(routes("mxfp4", "mxfp8_e4m3"), "bf16 bf16 bf16 mxfp8 mxfp8");
  EXPECT_EQ(routes("mxint8", "mxint8"), "bf16 bf16 bf16 bf16 bf16");
  EXPECT_EQ(routes("nvfp4", "nvfp4"), "bf16 bf16 bf16 nvfp4 nvfp4");
  EXPECT_EQ(routes("nvfp4", "mxfp4"), "bf16 bf16 bf16 bf16 bf16");
  EXPECT_EQ(routes("int8", "int8"), "int8 int8 int8 int8 int8");
  for (const char* narrow : {"mxfp4", "nvfp4", "fp8_e4m3", "mxfp8_e5m2", "int8"}) {
    EXPECT_EQ(routes(narrow, "bf16"), "bf16 bf16 bf16 bf16 bf16") << narrow;
    EXPECT_EQ(routes("fp32", narrow), "kernel kernel kernel kernel kernel") << narrow;
  }
}

TEST(CudaRoutes, ScalesOfRowsAndBlocksDecideToo) {
  const Block row{.kind = Block::Kind::row};
  const auto tile = [](int rows, int cols) {
    return Block{.kind = Block::Kind::tile, .rows = rows, .cols = cols};
  };
  const Operand rows = with_block("fp8_e4m3", row), whole = operand_of("fp8_e4m3");
  EXPECT_EQ(routes(form_of(rows, whole)), "bf16 fp8 fp8 fp8 fp8");
  const Held by_row{MatmulType::e4m3, MatmulScale::outer};
  const Held by_tensor{MatmulType::e4m3, MatmulScale::tensor};
  EXPECT_EQ(choose_route(card_of(90), form_of(rows, whole)).b, by_row) << "both alike";
  EXPECT_EQ(choose_route(card_of(100), form_of(rows, whole)).a, by_tensor) << "rows afterwards";

  const Operand line = with_block("fp8_e4m3", tile(1, 128)),
                square = with_block("fp8_e4m3", tile(128, 128));
  EXPECT_EQ(routes(form_of(line, square)), "kernel kernel fp8 kernel kernel");
  EXPECT_EQ(routes(form_of(line, line)), "kernel kernel fp8 kernel kernel");
  EXPECT_EQ(routes(form_of(square, square)), "kernel kernel kernel kernel kernel");
  EXPECT_EQ(choose_route(card_of(90), form_of(square, square)).why,
            "fp8: cuBLASLt on sm_90: BLK128x128_32F beside BLK128x128_32F");
  EXPECT_EQ(routes(form_of(line, whole)), "kernel kernel kernel kernel kernel");

  EXPECT_EQ(routes(form_of(with_region(row), with_region(row))), "bf16 bf16 bf16 nvfp4 nvfp4");
  const Operand folded = with_region(tile(1, 128));
  EXPECT_EQ(routes(form_of(folded, operand_of("nvfp4"))), "kernel kernel kernel kernel kernel");
  const Operand short_blocks = with_block("mxfp4", tile(1, 16));
  EXPECT_EQ(routes(form_of(short_blocks, short_blocks)), "bf16 bf16 bf16 bf16 bf16");
}

TEST(CudaRoutes, TheLeftOperandFoldsIntoE5M2WhereThatHoldsIt) {
  const auto folded = [](const char* left) {
    const RouteChoice choice =
        choose_route(card_of(90), form_of(operand_of(left), operand_of("mxfp4")));
    EXPECT_EQ(choice.route, Route::folded);
    EXPECT_EQ(choice.b, (Held{MatmulType::e4m3, MatmulScale::outer}));
    return choice.a.type;
  };
  EXPECT_EQ(folded("mxfp4"), MatmulType::e5m2);
  EXPECT_EQ(folded("mxfp6_e3m2"), MatmulType::e5m2);
  EXPECT_EQ(folded("mxfp6_e2m3"), MatmulType::e4m3);
}

TEST(CudaRoutes, OrdersOfSumsAndLengthsDecideToo) {
  GemmForm tiles = form_of(operand_of("bf16"), operand_of("bf16"));
  tiles.sum = SumOrder::tile32;
  EXPECT_EQ(routes(tiles), "kernel kernel kernel kernel kernel");
  const Operand mxfp4 = operand_of("mxfp4"), int8 = operand_of("int8"), nvfp4 = operand_of("nvfp4");
  GemmForm odd = form_of(mxfp4, mxfp4);
  odd.b.rows = 130;
  EXPECT_EQ(routes(odd), "bf16 folded folded mxfp8 mxfp8") << "filled up to 144 rows";
  EXPECT_EQ(routes(form_of(nvfp4, nvfp4, 48)), "bf16 bf16 bf16 nvfp4 nvfp4") << "to 64 along K";
  EXPECT_EQ(routes(form_of(int8, int8, 131072)), "int8 int8 int8 int8 int8");
  EXPECT_EQ(routes(form_of(int8, int8, 131088)), "bf16 bf16 bf16 bf16 bf16");
}

TEST(CudaRoutes, SayWhatKeptThemFromNarrowerOnes) {
  const auto why = [](int sm, const GemmForm& form) { return choose_route(card_of(sm), form).why; };
  const Operand mxfp4 = operand_of("mxfp4"), nvfp4 = operand_of("nvfp4");
  EXPECT_EQ(why(100, form_of(mxfp4, mxfp4)), "");
  EXPECT_EQ(why(90, form_of(mxfp4, mxfp4)), "mxfp8: cuBLASLt on sm_90: E4M3 with VEC32_UE8M0");
  EXPECT_EQ(why(90, form_of(nvfp4, nvfp4)), "nvfp4: cuBLASLt on sm_90: E2M1 with VEC16_UE4M3");
  EXPECT_EQ(why(80, form_of(operand_of("int8"), operand_of("int8"), 131088)),
            "int8: sums of 131088 products may leave INT32");
  EXPECT_EQ(why(90, form_of(operand_of("fp32"), mxfp4)), "");
  GemmForm tiles = form_of(operand_of("bf16"), operand_of("bf16"));
  tiles.sum = SumOrder::tile32;
  EXPECT_EQ(why(90, tiles), "sum = \"tile32\" is an order of its own");
}

/// Whether every value of an element times 2^exponent is one of the container.
bool folds(const ElementFormat& element, const ElementFormat& container, int exponent) {
  for (uint32_t code = 0; code < 1u << element.bits; ++code) {
    const float value = std::ldexp(decode(element, code), exponent);
    if (decode(container, encode(container, value)) != value) return false;
  }
  return true;
}

// [gpu.md §4 (b)]
TEST(CudaRoutes, WindowsOfFoldingAreThoseOfAllCodes) {
  const ElementFormat &e4m3 = element_format("e4m3"), &e5m2 = element_format("e5m2");
  const auto window = [](const char* element, const ElementFormat& container) {
    return fold_window(element_format(element), container);
  };
  EXPECT_EQ(window("e2m1", e4m3), (FoldWindow{-8, 6}));
  EXPECT_EQ(window("e2m1", e5m2), (FoldWindow{-15, 13}));
  EXPECT_EQ(window("e2m3", e4m3), (FoldWindow{-6, 5}));
  EXPECT_EQ(window("e3m2", e4m3).binades(), 10);
  EXPECT_EQ(window("e3m2", e5m2).binades(), 24);
  EXPECT_EQ(window("e2m3", e5m2).binades(), 0);
  for (const char* name : {"e2m1", "e2m3", "e3m2"})
    for (const ElementFormat* container : {&e4m3, &e5m2}) {
      const FoldWindow found = window(name, *container);
      for (int exponent = -30; exponent <= 30; ++exponent)
        EXPECT_EQ(folds(element_format(name), *container, exponent),
                  exponent >= found.least && exponent <= found.most)
            << name << " as " << container->name << " times 2^" << exponent;
    }
}

}  // namespace
}  // namespace ng::cuda
