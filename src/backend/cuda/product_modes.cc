#include "backend/cuda/product_modes.h"

namespace ng::cuda {
namespace {

using Type = MatmulType;
using Scale = MatmulScale;

constexpr int64_t kSide = 4096;

struct Mode {
  const char* name;
  Type a, b;
  Scale a_scale = Scale::none, b_scale = Scale::none;
};

// gpu.md §3, in the words of benchmarks/card/probe.
constexpr Mode kModes[] = {
    {"bf16", Type::bf16, Type::bf16},
    {"int8", Type::int8, Type::int8},
    {"fp8, a scale each", Type::e4m3, Type::e4m3, Scale::tensor, Scale::tensor},
    {"fp8 gradient, a scale each", Type::e4m3, Type::e5m2, Scale::tensor, Scale::tensor},
    {"fp8, rows and columns", Type::e4m3, Type::e4m3, Scale::outer, Scale::outer},
    {"fp8, 1x128", Type::e4m3, Type::e4m3, Scale::vec128, Scale::vec128},
    {"fp8, 128x128 by 1x128", Type::e4m3, Type::e4m3, Scale::block128, Scale::vec128},
    {"mxfp8", Type::e4m3, Type::e4m3, Scale::vec32_ue8m0, Scale::vec32_ue8m0},
    {"nvfp4", Type::e2m1, Type::e2m1, Scale::vec16_ue4m3, Scale::vec16_ue4m3},
};

/// A transposed and B not: what every card takes that takes any.
Matmul matmul_of(const Mode& mode) {
  return {.m = kSide,
          .n = kSide,
          .k = kSide,
          .a = {.type = mode.a, .transposed = true, .leading = kSide, .scale = mode.a_scale},
          .b = {.type = mode.b, .transposed = false, .leading = kSide, .scale = mode.b_scale},
          .d_type = mode.a == Type::int8 ? Type::int32 : Type::fp32,
          .d_leading = kSide};
}

}  // namespace

std::vector<ProductMode> product_modes(Units& units) {
  std::vector<ProductMode> all;
  for (const Mode& mode : kModes) all.push_back({mode.name, units.refusal(matmul_of(mode))});
  return all;
}

}  // namespace ng::cuda
