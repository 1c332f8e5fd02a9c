// Rounding eden against the definition, bit for bit.
#include "backend/cpu/quantize/eden.h"

#include "backend/cpu/quantize/quantize_testing.h"

namespace ng {
namespace {

std::vector<Operand> eden_casts() {
  std::vector<Operand> casts;
  for (const int bits : {8, 16, 32}) {
    casts.push_back(operand_of("nvfp4"));
    casts.back().rounding = Rounding::eden;
    casts.back().sr_bits = bits;
  }
  casts.push_back(casts[1]);
  casts.back().prescale = 0.75f;
  casts.push_back(casts[1]);
  casts.back().subnormals = Subnormals::flush;
  casts.push_back(casts[1]);
  casts.back().tensor_scale = ScaleKind::none;
  for (const int block : {4, 8, 64}) {  // of fewer values than a draw group has, of many
    casts.push_back(casts[1]);
    casts.back().block.cols = block;
  }
  casts.push_back(casts[1]);
  casts.back().element = &element_format("int4");
  return casts;
}

TEST(Eden, EqualsTheDefinitionForEveryCast) {
  for (const Operand& cast : eden_casts())
    for (const Contract contract : kContracts)
      for (const Data data : {Data::normal, Data::zeros, Data::tiny, Data::huge, Data::nonfinite})
        ASSERT_NO_FATAL_FAILURE(expect_same(cast, contract, 64, {19, 150}, data));
}

TEST(Eden, EqualsTheDefinitionOverPanelsTransformsAndThreads) {
  const std::vector<Operand> casts = eden_casts();
  for (size_t i = 0; i < casts.size(); ++i)
    for (const Contract contract : kContracts)
      for (const Shape shape : {Shape{130, 257}, Shape{33, 580}, Shape{1, 700}, Shape{700, 1}}) {
        const auto storage = i % 2 == 0 ? Storage::fp32 : Storage::bf16;
        ASSERT_NO_FATAL_FAILURE(expect_same(casts[i], contract, i % 2 == 0 ? 128 : 64, shape,
                                            Data::normal, 1 + static_cast<int>(i % 3), storage));
      }
}

}  // namespace
}  // namespace ng
