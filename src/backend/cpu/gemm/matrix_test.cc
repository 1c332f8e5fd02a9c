// Which products matrix tiles take; that their bits are the definition's, all tests of
// blocks_testing.h say.
#include "backend/cpu/gemm/blocks_testing.h"
#include "backend/cpu/gemm/job.h"

namespace ng::cpu {
namespace {

bool is_on_tiles(std::string_view format, int64_t k, SumOrder sum) {
  const Operand cast = operand_of(format);
  const Both a(spec_of(cast, Side::left, 3, k, multiple_of(cast)),
               values_of(Data::normal, 3, k, 1));
  const Both b(spec_of(cast, Side::right, 5, k, multiple_of(cast)),
               values_of(Data::normal, 5, k, 2));
  std::vector<float> y(15);
  const Gemm op{.y = {y.data(), 3, 5, 5}, .a = &a.cpu, .b = &b.cpu, .bias = {}, .sum = sum};
  EXPECT_FALSE(job_of(op, nullptr).on_tiles);
  return job_of(op, &scalar_matrix_kernels()).on_tiles;
}

TEST(MatrixTiles, TakeIntegersOfWholeSteps) {
  for (const std::string_view format : {"mxfp4", "mxfp6_e2m3", "mxint8", "int8", "int4"})
    EXPECT_TRUE(is_on_tiles(format, 96, SumOrder::chain)) << format;
  EXPECT_FALSE(is_on_tiles("int8", 100, SumOrder::chain));
  EXPECT_FALSE(is_on_tiles("nvfp4", 96, SumOrder::chain));  // blocks of 16
}

TEST(MatrixTiles, TakeBf16InTheirOrderAlone) {
  for (const std::string_view format : {"bf16", "fp8_e4m3", "mxfp8_e5m2", "nvfp4", "mxfp4"})
    EXPECT_TRUE(is_on_tiles(format, 33, SumOrder::tile32)) << format;
  for (const std::string_view format : {"bf16", "fp8_e4m3", "mxfp8_e5m2", "fp32"})
    EXPECT_FALSE(is_on_tiles(format, 64, SumOrder::chain)) << format;
}

}  // namespace
}  // namespace ng::cpu
