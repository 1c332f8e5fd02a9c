#include "speed/flops.h"

#include <gtest/gtest.h>

#include "run/backends.h"

namespace ng {
namespace {

double flops_of(const Windows& windows, int64_t length) {
  const ModelConfig config{.architecture = Architecture::qwen2,
                           .vocab = 7,
                           .layers = 2,
                           .heads = 2,
                           .kv_heads = 1,
                           .head_dim = 4,
                           .width = 8,
                           .ffn = 5,
                           .context = 16,
                           .attention_bias = true,
                           .windows = windows};
  const Recipe recipe = Recipe::parse("name = 'fp32'", "test");
  Run run(make_backend("cpu", Threads{1}), 1);
  Model model(run, config, recipe, RecomputePolicy::none);
  return flops_per_token(model, length);
}

// q and out are 8 x 8, k and v 4 x 8, the MLP 3 · 5 x 8, the head 7 x 8.
TEST(Flops, AreSixOfAWeightAndOfAKeyThatIsSeen) {
  const double weights = 2 * (64 + 64 + 32 + 32 + 120) + 56;
  EXPECT_EQ(flops_of({}, 16), 6 * (weights + 2 * 16 * 8));
  EXPECT_EQ(flops_of({.size = 4, .layers = {}}, 16), 6 * (weights + 2 * 7 * 8));
  EXPECT_EQ(flops_of({.size = 4, .layers = {false, true}}, 16), 6 * (weights + (16 + 7) * 8));
  EXPECT_EQ(flops_of({.size = 4, .layers = {}}, 4), 6 * (weights + 2 * 4 * 8));
}

}  // namespace
}  // namespace ng
