#include "report/bit_maps.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ng::report {
namespace {

/// A layer of rows × cols blocks of 10 weights each.
LearnedBits learned(const std::string& layer, int64_t rows, int64_t cols, std::vector<float> b_t) {
  const BlockGrid grid{.rows = rows, .cols = 10 * cols, .height = 1, .width = 10};
  return {.tensor = "weight." + layer + ".b_i",
          .layer = layer,
          .rows = rows,
          .cols = cols,
          .b_i = b_t,
          .bits = BlockBits{.noise = {}, .b_t = std::move(b_t), .grid = grid}};
}

std::vector<std::string> names(const RangeChart& chart) {
  std::vector<std::string> names;
  for (const RangeChart::Item& item : chart.items) names.push_back(item.name);
  return names;
}

TEST(BitRanges, LayersStandAsInThePaper) {
  const auto order = [](const std::vector<std::string>& parts) {
    std::vector<LearnedBits> layers;
    for (const char* block : {"blocks.10.", "blocks.2."})
      for (const std::string& part : parts) layers.push_back(learned(block + part, 1, 1, {6}));
    std::vector<std::string> found = names(bit_ranges(layers, 1));
    EXPECT_EQ(found.size(), 2 * parts.size());
    EXPECT_TRUE(found.back().starts_with("blocks.10."));
    found.resize(parts.size());
    for (std::string& name : found) name.erase(0, std::string("blocks.2.").size());
    return found;
  };
  EXPECT_EQ(order({"mlp.down", "mlp.up", "attn.out", "attn.qkv"}),
            (std::vector<std::string>{"attn.qkv", "attn.out", "mlp.up", "mlp.down"}));
  EXPECT_EQ(order({"mlp.up", "mlp.gate", "attn.v", "mlp.down", "attn.k", "attn.out", "attn.q"}),
            (std::vector<std::string>{"attn.q", "attn.k", "attn.v", "attn.out", "mlp.gate",
                                      "mlp.down", "mlp.up"}));
}

TEST(BitRanges, HoldFiguresAndShares) {
  const std::vector<LearnedBits> layers = {learned("blocks.0.mlp.up", 1, 4, {4, 6, 10, 12}),
                                           learned("blocks.0.mlp.down", 1, 1, {13})};
  const RangeChart chart = bit_ranges(layers, 1200);
  EXPECT_EQ(chart.title, "Bit-width by layer after 1,200 steps");
  ASSERT_EQ(chart.items.size(), 2u);
  const RangeChart::Item& up = chart.items.front();
  EXPECT_EQ(up.kind, "mlp.up");
  EXPECT_EQ(up.group, "0");
  EXPECT_EQ(up.color, 1) << "behind mlp.down, as in charts over time";
  EXPECT_EQ(up.mean, 8);
  EXPECT_EQ(up.sd, std::sqrt(10.0));
  EXPECT_EQ(up.low, 4);
  EXPECT_EQ(up.high, 12);
  EXPECT_TRUE(
      chart.note.starts_with("Of 50 weights with noise 20.0 % have a b_t of 5 or less, "
                             "40.0 % of 9 or less and 80.0 % of 12 or less"))
      << chart.note;
}

TEST(BitRanges, ShowNothingWithoutARecipe) {
  LearnedBits layer = learned("blocks.0.mlp.up", 1, 1, {6});
  layer.bits.reset();
  EXPECT_TRUE(bit_ranges(std::vector{layer}, 1).items.empty());
  EXPECT_TRUE(bit_maps(std::vector{layer}, 64).empty());
}

TEST(BitMaps, LieAsTheBlocksDoByBlockOfTheModel) {
  const std::vector<LearnedBits> layers = {learned("blocks.0.mlp.up", 2, 3, {4, 5, 6, 7, 8, 9}),
                                           learned("blocks.0.mlp.down", 1, 2, {3, 5}),
                                           learned("blocks.1.mlp.up", 1, 1, {10})};
  const std::vector<ChartChoice> choices = bit_maps(layers, 64);
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_EQ(choices[1].name, "block 1");
  ASSERT_EQ(choices[0].maps.maps.size(), 2u);
  const HeatMap& up = choices[0].maps.maps[0];
  EXPECT_EQ(up.title, "blocks.0.mlp.up");
  EXPECT_EQ(up.note, "2 x 3 blocks, 4 to 9");
  EXPECT_EQ(up.rows, 2);
  EXPECT_EQ(up.cols, 3);
  EXPECT_EQ(up.values, layers[0].bits->b_t);
  for (const ChartChoice& choice : choices) {
    EXPECT_EQ(choice.maps.low, 3) << "one scale for all";
    EXPECT_EQ(choice.maps.high, 10);
  }
}

TEST(BitMaps, OfLargeLayersHaveMeansInTheirCells) {
  // 5 x 3 blocks in cells of 3 x 2, those behind the last whole one smaller.
  const std::vector<LearnedBits> layers = {
      learned("blocks.0.mlp.up", 5, 3, {1, 2, 9, 3, 4, 9, 5, 6, 9, 7, 7, 8, 7, 7, 6})};
  const std::vector<ChartChoice> choices = bit_maps(layers, 2);
  const HeatMap& map = choices.at(0).maps.maps.at(0);
  EXPECT_EQ(map.rows, 2);
  EXPECT_EQ(map.cols, 2);
  EXPECT_EQ(map.values, (std::vector<float>{3.5f, 9, 7, 7}));
  EXPECT_EQ(map.note, "5 x 3 blocks, 1 to 9; a cell is 3 x 2");
  const auto values_of_width = [&](int64_t side) {
    return bit_maps(layers, side).at(0).maps.maps.at(0).values.size();
  };
  EXPECT_EQ(values_of_width(5), 15u) << "no need for means";
}

TEST(BitMaps, AreNoneWhereLayersHaveOneBitWidthEach) {
  EXPECT_TRUE(bit_maps(std::vector{learned("blocks.0.mlp.up", 1, 1, {6})}, 64).empty());
}

TEST(BitMaps, OfAllLayersStaySmall) {
  EXPECT_EQ(most_cells(1), 64);
  EXPECT_EQ(most_cells(64), 64);
  for (const size_t layers : {size_t{65}, size_t{560}, size_t{10'000}}) {
    const int64_t side = most_cells(layers);
    EXPECT_LE(static_cast<int64_t>(layers) * side * side, kMapCells);
    EXPECT_GT(static_cast<int64_t>(layers) * 4 * side * side, kMapCells) << "no less than needed";
  }
}

}  // namespace
}  // namespace ng::report
