// Gradients in few bits against independent oracles: tests/golden/fp8lm. One process sees one rank
// of those files.
#include <gtest/gtest.h>

#include "backend/gradient_scale.h"
#include "run/backends.h"
#include "support/golden_file.h"
#include "support/stored_tensor.h"

namespace ng {
namespace {

TEST(GradientGolden, MuFollowsTheCodesThatSaturate) {
  const GoldenFile golden("fp8lm/mu");
  for (const auto& [name, parameters] : golden.cases().items()) {
    if (!parameters.contains("elements")) continue;  // loops over several ranks
    SCOPED_TRACE(name);
    const std::vector<int64_t> saturated = golden.integers(name + ".saturated"),
                               k = golden.integers(name + ".k");
    const std::vector<float> mu = golden.floats(name + ".mu");
    AutoScale scale{.k = parameters["k0"]};
    const MoveAutoScale op{.scale = &scale,
                           .codes = {},
                           .threshold = parameters["threshold"],
                           .window = parameters["window"]};
    for (size_t i = 0; i < k.size(); ++i) {
      if (saturated[i] >= 0) move_auto_scale(op, saturated[i], parameters["elements"]);
      ASSERT_EQ(scale.k, static_cast<float>(k[i])) << i;
      if (saturated[i] < 0) continue;  // a skipped step
      ASSERT_EQ(scale.mu, mu[i]) << i;
    }
  }
}

// As the digest of FP8-LM's paper writes auto-scaling down: growth waits for so many good steps in
// a row, which one step that saturates forgets. [004, "Implementation Notes"]
TEST(AutoScaleGrowth, WaitsForGoodStepsInARow) {
  AutoScale scale;
  float good_steps = 0;
  const MoveAutoScale op{.scale = &scale,
                         .codes = {},
                         .threshold = 0.001,
                         .window = 1000,
                         .good_steps = &good_steps,
                         .growth_after = 3};
  struct Step {
    int64_t saturated;  // of 1,000 values
    float k, good_steps;
  };
  for (const Step& step : {Step{0, 0, 1},
                           {1, 0, 2},
                           {0, 1, 3},
                           {0, 2, 3},
                           {2, -998, 0},
                           {0, -998, 1},
                           {2, -1998, 0},
                           {0, -1998, 1},
                           {0, -1998, 2},
                           {0, -1997, 3}}) {
    move_auto_scale(op, step.saturated, 1000);
    EXPECT_EQ(scale.k, step.k);
    EXPECT_EQ(good_steps, step.good_steps);
    EXPECT_EQ(scale.mu, step.k == 0 ? 1.0f : static_cast<float>(std::exp2(double{step.k} / 1000)));
  }
}

class GradientGolden : public ::testing::TestWithParam<std::string_view> {};

// Where all ranks have the same gradient its scale is that of one.
TEST_P(GradientGolden, CodesOfOneRank) {
  const std::unique_ptr<Backend> backend = make_backend(std::string(GetParam()), Threads{2});
  const GoldenFile golden("fp8lm/reduce");
  for (const std::string name : {"one", "identical", "all_zero"}) {
    SCOPED_TRACE(name);
    const Json& parameters = golden.cases()[name];
    const int64_t rows = parameters["rows"], cols = parameters["cols"];
    Operand cast = operand_of("fp8_e4m3");
    cast.scale = parameters["scale"] == "pow2" ? ScaleKind::pow2 : ScaleKind::fp32;
    StoredTensor y(*backend, cast, rows, cols), x(*backend, operand_of("fp32"), rows, cols);
    x.put_floats(golden.floats(name + ".g").data());
    const BackendMemory memory(*backend, sizeof(AutoScale));
    auto* const scale = reinterpret_cast<AutoScale*>(memory.data());
    const AutoScale start{.mu = golden.floats(name + ".mu")[0], .k = parameters["k"]};
    backend->upload(memory.data(), &start, sizeof start);
    backend->execute(StoreGradient{.y = y.stored(), .x = x.view(), .key = {}, .scale = scale});
    EXPECT_EQ(y.decode_scales()[0], 1 / golden.floats(name + ".S")[0]);
    const std::vector<int64_t> codes = golden.integers(name + ".codes");
    const std::vector<uint16_t> got = y.codes();
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_TRUE(got[i] == codes[i] || (got[i] & 0x7F) + (codes[i] & 0x7F) == 0) << i;

    const int64_t saturated = golden.integers(name + ".saturated")[0];
    const double share = static_cast<double>(saturated) / static_cast<double>(rows * cols);
    const auto k_after = [&](double threshold) {
      backend->upload(memory.data(), &start, sizeof start);
      backend->execute(MoveAutoScale{
          .scale = scale, .codes = y.view(), .threshold = threshold, .window = 10000});
      AutoScale moved;
      backend->download(&moved, memory.data(), sizeof moved);
      return moved.k - start.k;
    };
    EXPECT_EQ(k_after(share), 1) << "at the threshold is not above it";
    EXPECT_EQ(k_after(share * 0.999), saturated > 0 ? -10000 : 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, GradientGolden, ::testing::Values("ref", "cpu"),
                         [](const auto& backend) { return std::string(backend.param); });

}  // namespace
}  // namespace ng
