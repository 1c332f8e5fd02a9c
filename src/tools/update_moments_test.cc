// Moments by `map`, `expand`, `parts` and `min_size` through `update_file`, against an independent
// oracle (tests/golden/linear). [linear.md 9]
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/update_files.h"

namespace ng {
namespace {

class UpdateMoments : public UpdateFiles {
 protected:
  /// Two steps of a case of the golden file, by its recipe.
  void expect_case(const GoldenFile& golden, const std::string& name) {
    const Json& parameters = golden.cases()[name];
    set_numbers(parameters);
    settings_.show = {1, 2};
    for (const char* tensor : {"weight", "grad", "state.moment1", "state.moment2"})
      take(tensor, golden.shape(name + "." + tensor), golden.floats(name + "." + tensor));
    const io::Safetensors out = update(parameters["toml"].get<std::string>());
    int compared = 0;
    for (const io::SafetensorsEntry& want : golden.entries()) {
      const std::string start = name + ".step";
      if (!want.name.starts_with(start) || want.name.ends_with(".sure")) continue;
      const std::string tensor = want.name.substr(name.size() + 1);
      SCOPED_TRACE(want.name);
      ASSERT_NE(out.find(tensor), nullptr);
      if (tensor.ends_with(".codes"))
        EXPECT_EQ(io::to_integers(out.at(tensor)), golden.integers(want.name));
      else
        expect_near(io::to_floats(out.at(tensor)), golden.floats(want.name),
                    tolerance_of(golden, name, tensor));
      ++compared;
    }
    EXPECT_GE(compared, 6);
  }

 private:
  /// Relative: as tests/golden/README.md says, of powers; all else is exact, as are all codes: here
  /// no order of operations changes one.
  static float tolerance_of(const GoldenFile& golden, const std::string& name,
                            const std::string& tensor) {
    const std::string sure = fmt::format("{}.{}.sure", name, tensor);
    if (golden.has(sure)) {
      const std::vector<int64_t> codes = golden.integers(sure);
      EXPECT_EQ(std::count(codes.begin(), codes.end(), 0), 0) << sure;
    }
    const bool expands = golden.has(name + ".step1.moment1.power");
    if (!expands || tensor == "step1.weight") return 0;
    if (tensor.ends_with(".weight")) return 1e-4f;
    return tensor.ends_with(".moment1") || tensor.ends_with(".moment2") ? 1e-5f : 2e-5f;
  }
  static void expect_near(const std::vector<float>& got, const std::vector<float>& want,
                          float relative) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_LE(std::fabs(got[i] - want[i]), relative * std::fabs(want[i])) << i << " " << got[i];
  }
};

TEST_P(UpdateMoments, AreThoseOfTheGoldenFile) {
  const GoldenFile golden("linear/moments");
  for (const auto& [name, parameters] : golden.cases().items()) expect_case(golden, name);
}

// Without the key no tensor is too small for `update`, which is about one.
TEST_P(UpdateMoments, AreNarrowWhateverTheirSizeWithoutTheKey) {
  take("weight", {1, 16}, std::vector<float>(16, 1.0f));
  take("grad", {1, 1, 16}, std::vector<float>(16, 1e-3f));
  (void)update("optimizer.moment1 = { format = 'int8', block = [1, 16], map = 'dynamic' }");
  EXPECT_EQ(report_.stored[1], "moment1 int8 block 1x16 map dynamic");
}

// Muon has other tensors for a moment that the file gives, in FP32, than for a narrow one.
TEST_P(UpdateMoments, OfMuonMayBeGiven) {
  for (const char* moment : {"{ format = 'int8', block = [1, 16], map = 'dynamic' }",
                             "{ format = 'fp8_e4m3', block = [1, 128], expand = true }",
                             "{ format = 'bf16', parts = 2 }"}) {
    SCOPED_TRACE(moment);
    settings_.show = {1, 2};
    take("weight", {2, 16}, std::vector<float>(32, 1.0f));
    take("grad", {2, 2, 16}, std::vector<float>(64, 1e-3f));
    std::vector<float> momentum(32, 0.0f);
    momentum[5] = 3;
    take("state.momentum", {2, 16}, momentum);
    const std::string recipe =
        "optimizer.kind = 'muon'\noptimizer.moment1 = " + std::string(moment);
    const io::Safetensors out = update(recipe);
    EXPECT_NEAR(io::to_floats(out.at("step1.momentum"))[5], 3 * 0.95, 0.1);
    EXPECT_NE(io::to_floats(out.at("step1.weight"))[5], io::to_floats(out.at("step1.weight"))[6]);
  }
}

// With a constant gradient v should come to g². In two parts it stalls where its steps are less
// than half of the last bit of lo, 0.1 to 1 % below; in BF16 alone far sooner, as 0.999 is 1 there.
TEST_P(UpdateMoments, InTwoPartsComeCloseToAMeanAndStall) {
  constexpr int64_t kSteps = 10'000;
  settings_.optimizer.beta2 = 0.999f;
  const auto mean = [&](const std::string& format) {
    take("weight", {1, 1}, {1.0f});
    take("grad", {kSteps, 1, 1}, std::vector<float>(kSteps, 1.0f));
    const io::Safetensors out = update("optimizer.moment2 = " + format);
    return double{io::to_floats(out.at(fmt::format("step{}.moment2", kSteps)))[0]};
  };
  const double wide = mean("'fp32'");
  EXPECT_NEAR(wide, 1 - std::pow(0.999, kSteps), 1e-4);
  const double lost = 1 - mean("{ format = 'bf16', parts = 2 }") / wide;
  EXPECT_GT(lost, 1e-3);
  EXPECT_LT(lost, 1e-2);
  EXPECT_GT(1 - mean("'bf16'") / wide, 0.5);
}

INSTANTIATE_TEST_SUITE_P(Backends, UpdateMoments, ::testing::Values("ref", "cpu"),
                         [](const auto& backend) { return std::string(backend.param); });

}  // namespace
}  // namespace ng
