// Flushed subnormals: the quantizer beside the definition, whatever makes and holds the elements.
#include "backend/cpu/quantize/quantize_testing.h"
#include "format/codec.h"

namespace ng {
namespace {

Operand flushed(const char* format) {
  Operand cast = operand_of(format);
  cast.subnormals = Subnormals::flush;
  return cast;
}

void expect_same_everywhere(const Operand& cast) {
  for (const Contract contract : kContracts)
    for (const Data data : {Data::normal, Data::zeros, Data::nonfinite}) {
      ASSERT_NO_FATAL_FAILURE(expect_same(cast, contract, 0, {48, 80}, data));
      ASSERT_NO_FATAL_FAILURE(expect_same(cast, contract, 0, {19, 45}, data, 2, Storage::bf16));
    }
}

TEST(Subnormals, AreFlushedAsByDefinition) {
  for (const char* format : {"mxfp4", "nvfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3",
                             "mxfp8_e5m2", "fp8_e4m3", "fp8_e5m2"}) {
    Operand cast = flushed(format);
    ASSERT_NO_FATAL_FAILURE(expect_same_everywhere(cast));
    cast.rounding = Rounding::stochastic;
    ASSERT_NO_FATAL_FAILURE(expect_same_everywhere(cast));
  }
}

TEST(Subnormals, AreFlushedWhereScalesAreTried) {
  Operand power = flushed("mxfp4");
  power.scale_rule = ScaleRule::mse;
  ASSERT_NO_FATAL_FAILURE(expect_same_everywhere(power));
  Operand fits = flushed("nvfp4");
  fits.fit = {6, 4};
  ASSERT_NO_FATAL_FAILURE(expect_same_everywhere(fits));
}

TEST(Subnormals, OfElementsThatUsersNameAreFlushed) {
  for (const char* element : {"e2m2fnuz", "e3m3", "e4m2fn", "e1m2fn", "e2m1_ieee"}) {
    Operand cast = flushed("mxfp4");
    cast.element = &element_format(element);
    ASSERT_NO_FATAL_FAILURE(expect_same_everywhere(cast));
  }
}

// One block with the scale 1: 0.75 and what is above are at least the least normal element.
TEST(Subnormals, OfE2M1AreItsHalf) {
  std::vector<float> x(32, 0.0f);
  const std::vector<std::pair<float, float>> rounded = {
      {6, 6}, {0.5f, 0}, {-0.5f, 0}, {0.74f, 0}, {0.75f, 1}, {-0.9f, -1}, {0.2f, 0}, {1.5f, 1.5f}};
  for (size_t i = 0; i < rounded.size(); ++i) x[i] = rounded[i].first;
  const OperandSpec spec = spec_of(flushed("mxfp4"), Contract::cols, 0, {1, 32});
  cpu::Workspace workspace({1});
  for (const Result& result : {by_definition(spec, {x.data(), 1, 32, 32}),
                               by_kernels(workspace, spec, {x.data(), 1, 32, 32})}) {
    for (size_t i = 0; i < rounded.size(); ++i)
      EXPECT_EQ(result.values[i], rounded[i].second) << rounded[i].first;
    EXPECT_EQ(result.stats.flushed, 4u);
  }
}

}  // namespace
}  // namespace ng
