// What noise on weights has learned, read back from the checkpoint of a run.
#include "learned/bits.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "support/session_runs.h"

namespace ng {
namespace {

class CheckpointBits : public SessionRuns {
 protected:
  /// Six steps of a model whose sizes (40, 70) are no multiples of a block.
  void train_with(const std::string& recipe) const {
    Listener listener;
    train(config({recipe_file(recipe), "model.width=40", "model.head_dim=20", "model.ffn=70"}),
          listener);
  }
  [[nodiscard]] io::Safetensors state() const {
    return io::Safetensors(join_path(checkpoint(6), kStateFile));
  }
  [[nodiscard]] std::vector<LearnedBits> learned() const {
    const std::optional<Recipe> recipe = recipe_of_checkpoint(checkpoint(6));
    if (!recipe) throw std::runtime_error("no recipe");
    return learned_bits(state(), &*recipe);
  }
  /// bit_widths of the last step in metrics.jsonl.
  [[nodiscard]] Json last_figures() const {
    const std::string text = read_file(in("out/metrics.jsonl"), kMaxFile);
    Json figures;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = text.find('\n', begin);
      const Json line = Json::parse(text.substr(begin, end - begin));
      if (line.contains("bit_widths")) figures = line["bit_widths"];
      begin = end + 1;
    }
    return figures;
  }
};

const LearnedBits& layer(const std::vector<LearnedBits>& layers, const std::string& name) {
  for (const LearnedBits& one : layers)
    if (one.layer == name) return one;
  throw std::runtime_error("no layer " + name);
}

TEST_F(CheckpointBits, AreThoseOfTheMetrics) {
  for (const char* noise : {"gaussws-all", "nipq"}) {
    SCOPED_TRACE(noise);
    remove_all(in("out"));
    train_with(fmt::format("inherit = '{}'\nweight_noise.b_init = 7", noise));
    const Json figures = last_figures();
    const std::vector<LearnedBits> layers = learned();
    ASSERT_EQ(layers.size(), 7u);
    ASSERT_EQ(figures.size(), 7u);
    for (const LearnedBits& one : layers) {
      ASSERT_TRUE(one.bits) << one.layer;
      ASSERT_EQ(one.bits->b_t.size(), static_cast<size_t>(one.rows * one.cols));
      EXPECT_EQ(one.clip.has_value(), std::string(noise) == "nipq");
      EXPECT_GT(one.clip.value_or(1), 0);
      const auto [least, most] = std::minmax_element(one.bits->b_t.begin(), one.bits->b_t.end());
      EXPECT_EQ(*least, figures[one.layer]["min"].get<float>()) << one.layer;
      EXPECT_EQ(*most, figures[one.layer]["max"].get<float>()) << one.layer;
      EXPECT_NE(*least, one.bits->noise.b_init) << "it has learned";
    }
  }
}

TEST_F(CheckpointBits, BlocksOnAnEdgeHaveFewerWeights) {
  train_with("inherit = 'gaussws-all'\nweight_noise.layers = ['*.mlp.*']");
  const std::vector<LearnedBits> layers = learned();
  ASSERT_EQ(layers.size(), 3u);
  const LearnedBits& up = layer(layers, "blocks.0.mlp.up");
  EXPECT_EQ(up.tensor, "weight.blocks.0.mlp.up.b_i");
  EXPECT_EQ(up.rows, 3);
  EXPECT_EQ(up.cols, 2);
  std::vector<int64_t> weights;
  up.bits->grid.for_each([&](size_t block, const BlockGrid::Part& part) {
    EXPECT_EQ(block, weights.size());
    weights.push_back(part.size());
  });
  EXPECT_EQ(weights, (std::vector<int64_t>{1024, 256, 1024, 256, 192, 48}));
  EXPECT_EQ(shares_of_weights(layers).weights, 3 * 40 * 70);
}

TEST(WeightSharesOf, CountWeightsNotBlocks) {
  const auto layer_of = [](std::vector<float> b_t, const BlockGrid& grid) {
    return LearnedBits{.tensor = "",
                       .layer = "",
                       .b_i = {},
                       .bits = BlockBits{.noise = {}, .b_t = std::move(b_t), .grid = grid}};
  };
  // Blocks of 2 and 1 weights, and of 7, 7 and 3.
  const std::vector<LearnedBits> layers = {
      layer_of({5.5f, 5}, {.rows = 1, .cols = 3, .height = 1, .width = 2}),
      layer_of({12.5f, 12, 9}, {.rows = 17, .cols = 1, .height = 7, .width = 1})};
  const WeightShares shares = shares_of_weights(layers);
  EXPECT_EQ(shares.weights, 20);
  EXPECT_EQ(shares.up_to_5, 1 / 20.0);
  EXPECT_EQ(shares.up_to_9, 6 / 20.0);
  EXPECT_EQ(shares.up_to_12, 13 / 20.0);
  EXPECT_EQ(shares_of_weights({}).weights, 0);
}

TEST_F(CheckpointBits, HaveTheRecipeOfTheirRunAndNoOther) {
  train_with("inherit = 'diffq'\nweight_noise.b_init = 8");
  write_file_atomically(in("recipe.toml"), "name = 'another'");
  const std::optional<Recipe> recipe = recipe_of_checkpoint(checkpoint(6));
  ASSERT_TRUE(recipe);
  EXPECT_EQ(recipe->settings(0).weight_noise.b_init, 8) << "as it was when the run began";
  const std::vector<LearnedBits> unknown = learned_bits(state(), nullptr);
  ASSERT_EQ(unknown.size(), 7u);
  EXPECT_FALSE(unknown.front().bits);
  EXPECT_EQ(shares_of_weights(unknown).weights, 0);

  std::string run_file = read_file(in("out/run.toml"), kMaxFile);
  const std::string b_init = "b_init = 8";
  run_file.replace(run_file.find(b_init), b_init.size(), "b_init = 9");
  write_file_atomically(in("out/run.toml"), run_file);
  EXPECT_EQ(recipe_of_checkpoint(checkpoint(6))->hash(), recipe->hash()) << "of the checkpoint";
  std::string identity = read_file(join_path(checkpoint(6), "run.json"), kMaxFile);
  const std::string key = "\"recipe_toml\"";  // which older ones lack
  identity.replace(identity.find(key), key.size(), "\"unknown\"");
  write_file_atomically(join_path(checkpoint(6), "run.json"), identity);
  EXPECT_FALSE(recipe_of_checkpoint(checkpoint(6))) << "another recipe than the checkpoint's";
  write_file_atomically(in("out/run.toml"), "seed = 1\n");
  EXPECT_FALSE(recipe_of_checkpoint(checkpoint(6)));
  remove_all(in("out/run.toml"));
  EXPECT_FALSE(recipe_of_checkpoint(checkpoint(6)));
}

TEST_F(CheckpointBits, OfARecipeThatDoesNotFitAreRefused) {
  train_with("inherit = 'gaussws-all'\nweight_noise.layers = ['*.mlp.up']");
  const auto refusal = [&](const char* toml) -> std::string {
    const Recipe recipe = Recipe::parse(toml, "r.toml");
    try {
      (void)learned_bits(state(), &recipe);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refusal("name = 'none'").find("weight.blocks.0.mlp.up.b_i: a layer without noise"),
            std::string::npos);
  EXPECT_NE(refusal("inherit = 'gaussws-all'\nweight_noise.block = 'tensor'")
                .find("3 x 2 blocks, but 1 x 1 by the recipe"),
            std::string::npos);
}

TEST_F(CheckpointBits, OfAnEmptyWeightAreRefused) {
  const float b_i = 1;
  io::write_safetensors(in("state"), {{"weight.blocks.0.mlp.up.weight", "F32", {0, 64}, nullptr},
                                      {"weight.blocks.0.mlp.up.b_i", "F32", {1, 1}, &b_i}});
  const Recipe recipe = Recipe::parse("inherit = 'nipq'", "r.toml");
  try {
    (void)learned_bits(io::Safetensors(in("state")), &recipe);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.parts().key, "weight.blocks.0.mlp.up.weight");
    EXPECT_EQ(error.parts().problem, "shape (0, 64)");
  }
}

TEST_F(CheckpointBits, ThereAreNoneWithoutNoise) {
  train_with("name = 'plain'");
  EXPECT_TRUE(learned().empty());
}

}  // namespace
}  // namespace ng
