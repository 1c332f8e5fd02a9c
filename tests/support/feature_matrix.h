// A covering array over what recipes can say: few recipes in which every pair of features that may
// stand together does so at least once. Training each of them for two steps tries every pair.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ng {

/// One thing that recipes differ in, with the TOML of each level.
struct FeatureFactor {
  std::string_view name;
  std::vector<std::string_view> levels;  ///< the first is the default
};

/// The levels of all factors, in the order of feature_factors().
using FeatureLevels = std::vector<size_t>;

[[nodiscard]] std::span<const FeatureFactor> feature_factors();

/// The recipe with these levels; it may contradict itself.
[[nodiscard]] std::string feature_recipe(const FeatureLevels& levels);

/// May these levels stand in one recipe?
[[nodiscard]] bool features_fit(const FeatureLevels& levels);

/// Valid recipes only; the same on every call.
[[nodiscard]] std::vector<FeatureLevels> feature_matrix();

}  // namespace ng
