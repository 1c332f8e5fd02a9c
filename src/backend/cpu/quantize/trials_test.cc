// Blocks that choose among scales, against the definition, bit for bit.
#include "backend/cpu/quantize/trials.h"

#include <string>

#include "backend/cpu/quantize/quantize_testing.h"

namespace ng {
namespace {

Operand fitted(Operand cast, const Fits& fit, Select select = Select::mse) {
  cast.fit = fit;
  cast.select = select;
  cast.scale_max = 256;
  return cast;
}

Operand in_blocks(const char* name, int rows, int cols) {
  const Operand cast = operand_of(name);
  return with_block(cast, rows, cols, cast.scale);
}

/// One fit: nothing is tried.
std::vector<Operand> single_fits() {
  std::vector<Operand> casts;
  for (const char* name : {"nvfp4", "fp8_e4m3", "fp8_e5m2", "int8", "int4"})
    for (const float fit : {5.647058823529412f, 3.7f, 6.072106f, 240.0f}) {
      casts.push_back(fitted(operand_of(name), {fit}));
      casts.push_back(fitted(in_blocks(name, 16, 16), {fit}));
    }
  casts.push_back(fitted(operand_of("fp8_e4m3"), {240.0f}));
  casts.back().scaling = Scaling::delayed;
  return casts;
}

std::vector<Operand> choices() {
  std::vector<Operand> casts;
  for (const Select select : {Select::mse, Select::mae, Select::max}) {
    casts.push_back(fitted(operand_of("nvfp4"), {6, 4}, select));
    casts.push_back(fitted(in_blocks("nvfp4", 16, 16), {6, 4}, select));
    casts.push_back(fitted(in_blocks("nvfp4", 4, 32), {4, 6, 5.5f}, select));
    casts.push_back(
        fitted(with_block(operand_of("nvfp4"), 1, 16, ScaleKind::fp32), {6, 4}, select));
    casts.back().tensor_scale = ScaleKind::none;
    casts.push_back(fitted(in_blocks("int4", 1, 16), {7, 5.5f}, select));
    casts.push_back(fitted(in_blocks("int8", 16, 32), {127, 100}, select));
    casts.push_back(fitted(in_blocks("fp8_e4m3", 1, 32), {448, 400, 350}, select));
    casts.push_back(fitted(in_blocks("fp8_e4m3", 128, 128), {448, 384}, select));  // too large
    casts.push_back(
        fitted(with_block(operand_of("fp8_e5m2"), 2, 16, ScaleKind::pow2), {57344, 40000}, select));
    casts.push_back(fitted(with_block(operand_of("bf16"), 1, 16, ScaleKind::fp32), {1, 3}, select));
    casts.back().overflow = Overflow::saturate;
  }
  for (const Select select : {Select::mse, Select::mae, Select::max})
    for (const auto& [rows, cols] : {std::pair{1, 16}, {16, 16}, {2, 64}, {128, 128}}) {
      casts.push_back(in_blocks("nvfp4", rows, cols));
      casts.back().other = &element_format("int4");
      casts.back().select = select;
    }
  for (const ScaleKind tensor : {ScaleKind::none, ScaleKind::pow2}) {
    casts.push_back(fitted(operand_of("nvfp4"), {6, 4}));
    casts.back().tensor_scale = tensor;
    casts.back().scale_rule = ScaleRule::up;
  }
  return casts;
}

std::vector<Operand> both_roundings(std::vector<Operand> casts) {
  const size_t nearest = casts.size();
  for (size_t i = 0; i < nearest; ++i) {
    casts.push_back(casts[i]);
    casts.back().rounding = Rounding::stochastic;
    casts.back().sr_bits = i % 5 == 0 ? 8 : i % 7 == 3 ? 32 : 16;
  }
  return casts;
}

TEST(Fits, EqualTheDefinitionForEveryCast) {
  for (const std::vector<Operand>& casts :
       {both_roundings(single_fits()), both_roundings(choices())})
    for (const Operand& cast : casts)
      for (const Contract contract : kContracts)
        for (const Data data : {Data::normal, Data::zeros, Data::tiny, Data::huge, Data::nonfinite})
          ASSERT_NO_FATAL_FAILURE(expect_same(cast, contract, 0, {19, 38}, data));
}

TEST(Fits, EqualTheDefinitionOverPanelsTransformsAndThreads) {
  const std::vector<Operand> casts = both_roundings(choices());
  for (size_t i = 0; i < casts.size(); ++i)
    for (const Contract contract : kContracts)
      for (const Shape shape :
           {i % 2 == 0 ? Shape{130, 257} : Shape{33, 580}, Shape{1, 700}, Shape{700, 1}}) {
        const auto storage = i % 2 == 0 ? Storage::fp32 : Storage::bf16;
        ASSERT_NO_FATAL_FAILURE(expect_same(casts[i], contract, i % 3 == 0 ? 64 : 0, shape,
                                            Data::normal, 1 + static_cast<int>(i % 3), storage));
      }
}

// The E8M0 rule that tries two scales, of tiles and rows.
TEST(ScaleRuleMse, EqualsTheDefinitionForTiles) {
  for (const char* name : {"mxfp4", "mxfp6_e3m2", "mxfp8_e5m2", "mxint8"})
    for (const auto& [rows, cols] : {std::pair{1, 16}, {4, 32}, {32, 32}, {3, 20}, {128, 128}})
      for (const Contract contract : kContracts)
        for (const Data data : {Data::normal, Data::tiny, Data::nonfinite}) {
          Operand cast = in_blocks(name, rows, cols);
          cast.scale_rule = ScaleRule::mse;
          cast.rounding = rows == 4 ? Rounding::stochastic : Rounding::nearest;
          ASSERT_NO_FATAL_FAILURE(expect_same(cast, contract, 0, {67, 150}, data));
        }
}

}  // namespace
}  // namespace ng
