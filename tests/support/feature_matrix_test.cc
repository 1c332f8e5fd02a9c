#include "support/feature_matrix.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "recipe/recipe.h"

namespace ng {
namespace {

TEST(FeatureMatrix, EveryCaseIsARecipe) {
  const std::vector<FeatureLevels> cases = feature_matrix();
  EXPECT_GT(cases.size(), 100u);
  EXPECT_LT(cases.size(), 220u);
  for (const FeatureLevels& levels : cases)
    EXPECT_NO_THROW((void)Recipe::parse(feature_recipe(levels), "case.toml"))
        << feature_recipe(levels);
}

TEST(FeatureMatrix, EveryLevelOccurs) {
  const std::vector<FeatureLevels> cases = feature_matrix();
  for (size_t f = 0; f < feature_factors().size(); ++f) {
    std::set<size_t> levels;
    for (const FeatureLevels& each : cases) levels.insert(each[f]);
    EXPECT_EQ(levels.size(), feature_factors()[f].levels.size()) << feature_factors()[f].name;
  }
}

// A pair that no case shows contradicts itself whatever the gradient's format is.
TEST(FeatureMatrix, EveryPairThatFitsIsThere) {
  const auto factors = feature_factors();
  std::set<std::array<size_t, 4>> shown;
  for (const FeatureLevels& levels : feature_matrix())
    for (size_t f = 0; f < levels.size(); ++f)
      for (size_t g = f + 1; g < levels.size(); ++g) shown.insert({f, levels[f], g, levels[g]});
  size_t missing = 0;
  for (size_t f = 0; f < factors.size(); ++f)
    for (size_t g = f + 1; g < factors.size(); ++g)
      for (size_t a = 0; a < factors[f].levels.size(); ++a)
        for (size_t b = 0; b < factors[g].levels.size(); ++b) {
          if (shown.contains({f, a, g, b})) continue;
          ++missing;
          for (size_t format = 0; format < factors[0].levels.size(); ++format) {
            FeatureLevels levels(factors.size(), 0);
            levels[0] = format;
            levels[f] = a;
            levels[g] = b;
            EXPECT_FALSE(features_fit(levels)) << feature_recipe(levels);
          }
        }
  EXPECT_GT(missing, 0u);
}

}  // namespace
}  // namespace ng
