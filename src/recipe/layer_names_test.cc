#include "recipe/layer_names.h"

#include <gtest/gtest.h>

namespace ng::layers {
namespace {

TEST(LayerNames, KnowTheirBlock) {
  for (const int64_t block : {0, 12}) {
    for (const std::string_view part : kLinearsOfBlocks) {
      const std::string name = in_block(block, part);
      EXPECT_EQ(place_of(name).block, block) << name;
      EXPECT_EQ(place_of(name).part, part) << name;
      EXPECT_EQ(layer_of(weight_of(name)), name);
      EXPECT_EQ(layer_of(bias_of(name)), name);
    }
  }
  EXPECT_EQ(in_block(3, kUp), "blocks.3.mlp.up");
}

TEST(LayerNames, OthersAreOfNoBlock) {
  for (const char* name :
       {"head", "embed", "", "blocks", "blocks.", "blocks.3", "blocks.x.mlp", "blocks.3mlp",
        "blocks.-1.mlp", "blocks.99999999999999999999.mlp", "blocks.9223372036854775807.mlp"}) {
    EXPECT_EQ(place_of(name).block, -1) << name;
    EXPECT_EQ(place_of(name).part, name);
  }
}

}  // namespace
}  // namespace ng::layers
