// The keys of auto-scaling: the name that one had before, values that are none, what has no effect.
#include <gtest/gtest.h>

#include "base/error.h"
#include "recipe/recipe.h"

namespace ng {
namespace {

const std::string kAutoScaleWire = "gradient.communicate='fp8_e4m3'\n";

Recipe auto_scale_recipe(std::string_view toml) { return Recipe::parse(toml, "test.toml"); }

// Checkpoints of a key's former name go on, and so does what their run files say.
TEST(AutoScaleKeys, AFormerNameIsReadAndSaid) {
  const std::string wire = kAutoScaleWire + "gradient.auto_scale=true\n";
  const Recipe now = auto_scale_recipe(wire + "gradient.auto_scale_delta=0.001"),
               was = auto_scale_recipe(wire + "gradient.saturation_threshold=0.001");
  EXPECT_EQ(was.settings(0).gradient.auto_scale_delta, 0.001);
  EXPECT_EQ(was.hash(), now.hash());
  EXPECT_EQ(was.hash(), "778fe31edfc6677a");
  EXPECT_EQ(was.hash_of_all_keys(), now.hash_of_all_keys());
  EXPECT_EQ(was.resolved_toml(), now.resolved_toml());
  EXPECT_NE(was.resolved_toml().find("auto_scale_delta = 0.001\n"), std::string::npos);
  EXPECT_TRUE(now.warnings().empty());
  EXPECT_EQ(was.warnings(),
            std::vector<std::string>{"test.toml:3: gradient.saturation_threshold: now called "
                                     "gradient.auto_scale_delta"});
  EXPECT_NE(auto_scale_recipe(wire + "gradient.auto_scale_growth_after=2").hash(),
            auto_scale_recipe(wire).hash());
}

TEST(AutoScaleKeys, RefuseWhatIsNone) {
  struct Bad {
    const char *toml, *message;
  };
  for (
      const Bad& bad :
      {Bad{"gradient.auto_scale_delta = 2",
           "test.toml:1: gradient.auto_scale_delta: 2: a number from 0 to 1"},
       Bad{"gradient.saturation_threshold = 2",
           "test.toml:1: gradient.saturation_threshold: 2: a number from 0 to 1"},
       Bad{"gradient.auto_scale_delta = 0.1\ngradient.saturation_threshold = 0.1",
           "test.toml:2: gradient.saturation_threshold: is gradient.auto_scale_delta, which stands "
           "there, too: only gradient.auto_scale_delta"},
       Bad{"gradient.auto_scale_start = 1",
           "test.toml:1: gradient.auto_scale_start: 1: 1/sqrt(N), 1/N or 1"},
       Bad{"gradient.auto_scale_growth_after = 0",
           "test.toml:1: gradient.auto_scale_growth_after: 0: a whole number from 1 to 1000000"}}) {
    try {
      (void)auto_scale_recipe(bad.toml);
      ADD_FAILURE() << bad.toml;
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), bad.message);
    }
  }
}

TEST(AutoScaleKeys, WarnWhereAutoScalingIsOff) {
  const std::string wire = kAutoScaleWire;
  for (const std::string key :
       {"gradient.auto_scale_delta=0.1", "gradient.auto_scale_growth_after=9",
        "gradient.auto_scale_start='1/N'\ngradient.reduce='wire'"}) {
    EXPECT_EQ(auto_scale_recipe(wire + key).warnings().size(), 1u) << key;
    EXPECT_TRUE(auto_scale_recipe(wire + "gradient.auto_scale=true\n" + key).warnings().empty())
        << key;
  }
}

TEST(AutoScaleKeys, WarnOfAStartThatNoSumOnTheWireHas) {
  const std::string scaled =
      "gradient.communicate='fp8_e4m3'\ngradient.auto_scale=true\ngradient.auto_scale_start='1'\n";
  EXPECT_EQ(auto_scale_recipe(scaled).warnings().size(), 1u);
  EXPECT_TRUE(auto_scale_recipe(scaled + "gradient.reduce='wire'").warnings().empty());
}

}  // namespace
}  // namespace ng
