// Delayed scaling against TransformerEngine's: tests/golden/fp8lm/delayed.
#include "format/scale.h"

#include <gtest/gtest.h>

#include "format/codec.h"
#include "support/golden_file.h"

namespace ng {
namespace {

TEST(DelayedScale, FollowsTheHistory) {
  const GoldenFile file("fp8lm/delayed");
  for (const auto& [name, of_case] : file.cases().items()) {
    Operand cast = operand_of("fp8_" + of_case["element"].get<std::string>());
    cast.amax_history = of_case["amax_history"];
    cast.amax_compute =
        of_case["amax_compute"] == "max" ? AmaxCompute::max : AmaxCompute::most_recent;
    cast.margin = of_case["margin"];
    const float largest = max_value(*cast.element);
    const std::vector<float> amax = file.floats(name + ".amax"),
                             scales = file.floats(name + ".encode_scale");
    const std::vector<int64_t> saturates = file.integers(name + ".saturates");
    ASSERT_EQ(std::ssize(amax), of_case["steps"].get<int64_t>());
    std::vector<float> history(static_cast<size_t>(cast.amax_history));
    float scale = 1;
    for (size_t step = 0; step < amax.size(); ++step) {
      EXPECT_EQ(scale, scales[step]) << name << ' ' << step;
      EXPECT_EQ(amax[step] * scale > largest, saturates[step] == 1) << name << ' ' << step;
      history[0] = amax[step];
      roll_history(cast, largest, &scale, history.data());
    }
    EXPECT_EQ(scale, file.floats(name + ".last_scale")[0]) << name;
    EXPECT_EQ(history, file.floats(name + ".history")) << name;
  }
  EXPECT_EQ(file.cases().size(), 6u);
}

}  // namespace
}  // namespace ng
