#include "model/architecture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "recipe/layer_names.h"

namespace ng {
namespace {

/// Of the matrices of block 0, in the order of the table.
std::vector<std::string> matrices_of_a_block(Architecture architecture) {
  ModelConfig config;
  config.architecture = architecture;
  config.layers = 1;
  std::vector<std::string> names;
  for (const ParameterSpec& parameter : parameter_table(config))
    if (!parameter.is_vector && parameter.name.starts_with("blocks.0."))
      names.push_back(parameter.name);
  return names;
}

TEST(Architecture, LinearLayersAreThoseOfItsParameterTable) {
  for (const Architecture architecture : {Architecture::gpt2, Architecture::llama}) {
    std::vector<std::string> names;
    for (const std::string_view part : linears_of_block(parts_of(architecture)))
      names.push_back(layers::weight_of(layers::in_block(0, part)));
    EXPECT_EQ(names, matrices_of_a_block(architecture));
  }
}

// Recipes are tried on the layers that models have, and on no others.
TEST(Architecture, TogetherHaveAllLinearLayers) {
  std::set<std::string_view> names;
  for (const std::string_view architecture : architecture_names())
    for (const std::string_view part : linears_of_block(*find_architecture(architecture)))
      names.insert(part);
  EXPECT_EQ(names, std::set<std::string_view>(layers::kLinearsOfBlocks.begin(),
                                              layers::kLinearsOfBlocks.end()));
}

}  // namespace
}  // namespace ng
