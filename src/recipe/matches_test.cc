// What the tables of a recipe mean in a model, and what is said of those that mean nothing.
#include "recipe/matches.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "recipe/layer_names.h"

namespace ng {
namespace {

using Names = std::vector<std::string>;

ModelLayers llama_of(int64_t blocks) {
  ModelLayers model{.names = {"embed"}, .depth = blocks};
  for (int64_t block = 0; block < blocks; ++block)
    for (const std::string_view part : layers::kLinearsOfBlocks)
      if (part != layers::kQkv) model.names.push_back(layers::in_block(block, part));
  model.names.emplace_back("head");
  return model;
}

Recipe recipe_of(const std::string& toml) { return Recipe::parse(toml, "mine.toml"); }

std::string error_of(const std::string& toml, int64_t blocks = 4) {
  try {
    require_matches(recipe_of(toml), llama_of(blocks));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

const std::string kBf16 = "linear = 'bf16'\n";

TEST(Matches, NameTheLayersOfOverridesNoiseAndPhases) {
  const Recipe recipe = recipe_of(
      "linear.fprop.input = 'mxfp4'\nweight_noise.kind = 'gaussws'\nweight_noise.layers = "
      "'*.mlp.up'\n"
      "linear.fprop.weight = 'bf16'\nlinear.dgrad.weight = 'bf16'\n"
      "[[override]]\nblocks = '-1:'\nlayers = '*.attn.*'\nlinear = 'bf16'\n"
      "[[override]]\nlayers = ['embed', 'blocks.1.mlp.down']\nweights.storage = 'bf16'\n"
      "weights.update = 'stochastic'\noptional = true\n"
      "[[phase]]\nstart = 0.5\nlinear = 'bf16'\n");
  const std::vector<RecipeMatch> matches = recipe.matches(llama_of(2));
  ASSERT_EQ(matches.size(), 4u);
  EXPECT_EQ(matches[0].key, "override[1]");
  EXPECT_EQ(matches[0].place, "mine.toml:6");
  EXPECT_EQ(matches[0].patterns, Names{"*.attn.*"});
  EXPECT_EQ(matches[0].blocks, "-1:");
  EXPECT_FALSE(matches[0].is_optional);
  EXPECT_EQ(matches[0].layers,
            (Names{"blocks.1.attn.q", "blocks.1.attn.k", "blocks.1.attn.v", "blocks.1.attn.out"}));
  EXPECT_TRUE(matches[1].is_optional);
  EXPECT_EQ(matches[1].layers, (Names{"embed", "blocks.1.mlp.down"}));
  EXPECT_EQ(matches[2].key, "weight_noise");
  EXPECT_EQ(matches[2].layers, (Names{"blocks.0.mlp.up", "blocks.1.mlp.up"}));
  EXPECT_EQ(matches[3].key, "phase[1]");
  EXPECT_EQ(matches[3].start, 0.5);
  EXPECT_EQ(matches[3].layers.size(), 7u + 3u) << "attention of the last block is BF16 before";
}

// An embedding has no GEMM.
TEST(Matches, OfTablesAreThoseThatAreStored) {
  const auto layers_of = [](const std::string& keys) {
    return recipe_of("[[override]]\nlayers = '*'\n" + keys).matches(llama_of(1)).front().layers;
  };
  EXPECT_EQ(layers_of(kBf16).front(), "blocks.0.attn.q");
  EXPECT_EQ(layers_of("weights.storage = 'bf16'\n").front(), "embed");
}

TEST(Matches, OfNothingAreRefusedWithWhatIsNear) {
  const std::string layers = "\n\n[[override]]\n" + kBf16 + "layers = ";
  EXPECT_EQ(error_of(layers + "['attn.*']"),
            "mine.toml:3: override[1].layers: \"attn.*\" means no layer: \"blocks.*.attn.*\", "
            "which means 16 layers of this model; or optional = true, where it may mean none");
  for (const auto& [written, meant] :
       {std::pair("mlp.down", "\"blocks.*.mlp.down\", which means 4 layers"),
        {"down", "\"blocks.*.down\", which means 4 layers"},
        {"*.atn.q", "\"blocks.*.attn.q\", which means 4 layers"},
        {"blocks.1.mlp.upp", "\"blocks.*.mlp.up\", which means 4 layers"},
        {"heads", "\"head\", which means 1 layer of"},
        {"blocks.4.*", "blocks 0 to 3, which this model has"},
        {"*.attn.qkv", "\"blocks.*.attn.q\", which means 4 layers"},
        {"q_proj", "\"blocks.*.attn.q\", which means 4 layers"},
        {"model.layers.*.self_attn.o_proj", "\"blocks.*.attn.out\", which means 4 layers"},
        {"lm_head", "\"head\", which means 1 layer of"},
        {"blocks.*.ffn.*", "\"blocks.*.mlp.*\", which means 12 layers"},
        {"*.self_attn.*", "\"blocks.*.attn.*\", which means 16 layers"},
        {"transformer",
         "patterns of blocks.N. with attn.q attn.k attn.v attn.out mlp.gate mlp.up mlp.down, or "
         "embed head"}})
    EXPECT_NE(error_of(layers + "'" + written + "'").find(meant), std::string::npos)
        << error_of(layers + "'" + written + "'");
}

TEST(Matches, OfWhatTheTableDoesNotChangeAreRefusedAsThat) {
  EXPECT_EQ(
      error_of("[[override]]\n" + kBf16 + "layers = 'embed'"),
      "mine.toml:1: override[1].layers: \"embed\" is no linear layer: linear layers, or keys of "
      "weights, which embeddings have; or optional = true, where it may mean none");
  EXPECT_EQ(
      error_of("weight_noise.kind = 'gaussws'\nweight_noise.layers = 'head'\n"),
      "mine.toml:2: weight_noise.layers: \"head\" means no layer of a block: layers of blocks, "
      "which alone have noise; or optional = true, where it may mean none");
}

TEST(Matches, EachPatternOfAnOverrideMustMeanALayer) {
  const std::string override_ = "[[override]]\n" + kBf16;
  const std::string fused = "layers = ['*.attn.qkv', '*.mlp.down']";
  EXPECT_NE(error_of(override_ + fused)
                .find("override[1].layers: \"*.attn.qkv\" means no layer: \"blocks.*.attn.q\""),
            std::string::npos)
      << "it is another architecture's";
  EXPECT_EQ(error_of(override_ + fused + "\noptional = true"), "no error");
  EXPECT_EQ(error_of("weight_noise.kind = 'gaussws'\nweight_noise." + fused), "no error")
      << "shipped recipes name the layers of all architectures";
  EXPECT_NE(error_of(override_ + "layers = ['*.attn.q', '*.mpl.up']")
                .find("override[1].layers: \"*.mpl.up\" means no layer: \"blocks.*.mlp.up\""),
            std::string::npos);
  EXPECT_EQ(error_of(override_ + "blocks = '4:'"),
            "mine.toml:1: override[1]: blocks = \"4:\" means no layer: some of this model's 4 "
            "blocks and of blocks.N. with attn.q attn.k attn.v attn.out mlp.gate mlp.up mlp.down, "
            "or embed head; or optional = true, where it may mean none");
  EXPECT_EQ(error_of(override_ + "blocks = '3:'"), "no error");
  EXPECT_NE(error_of(override_ + "blocks = ':1'\nlayers = 'blocks.3.*'")
                .find("layers = [\"blocks.3.*\"] with blocks = \":1\" means no layer"),
            std::string::npos);
}

TEST(Matches, MayBeNoneWhereThatIsWritten) {
  for (const char* where : {"layers = 'attn.*'", "blocks = '4:'"})
    EXPECT_EQ(error_of("[[override]]\noptional = true\n" + kBf16 + where), "no error");
  const std::string noise =
      "weight_noise.kind = 'gaussws'\nweight_noise.layers = ['head', '*.mlp.upp']\n";
  EXPECT_NE(error_of(noise).find("mine.toml:2: weight_noise.layers: \"*.mlp.upp\" means no layer"),
            std::string::npos)
      << error_of(noise);
  EXPECT_EQ(error_of(noise + "weight_noise.optional = true\n"), "no error");
}

TEST(Matches, OfNamedRecipesAreSomewhereInEveryModel) {
  ModelLayers gpt2{.names = {"embed", "pos"}, .depth = 1};
  for (const char* part : {"attn.qkv", "attn.out", "mlp.up", "mlp.down"})
    gpt2.names.push_back(layers::in_block(0, part));
  gpt2.names.emplace_back("head");
  for (const std::string& name : recipe_names())
    for (const ModelLayers& model : {gpt2, llama_of(1), llama_of(30)})
      EXPECT_NO_THROW(require_matches(Recipe::load(name), model)) << name;
}

TEST(Matches, WithoutAModelAreJudgedByAllThereMayBe) {
  const auto check = [](const std::string& layers) {
    require_known_patterns(recipe_of("[[override]]\n" + kBf16 + "layers = " + layers), llama_of(12),
                           "a Llama of 12 blocks");
  };
  EXPECT_NO_THROW(check("['*.attn.qkv', 'blocks.100.*']"));
  try {
    check("['attn.*']");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what())
                  .find("\"blocks.*.attn.*\", which means 48 layers of a Llama of 12 blocks"),
              std::string::npos)
        << error.what();
  }
}

// Who marks what meant nothing goes on from the checkpoints of before.
TEST(Matches, OptionalIsNoOtherRecipe) {
  const std::string noise = "weight_noise.kind = 'gaussws'\n", override_ = "[[override]]\n" + kBf16;
  const Recipe plain = recipe_of(noise + override_ + "layers = 'head'\n");
  const Recipe marked = recipe_of(noise + "weight_noise.optional = true\n" + override_ +
                                  "optional = true\nlayers = 'head'\n");
  EXPECT_EQ(plain.hash(), marked.hash());
  EXPECT_EQ(plain.hash_of_all_keys(), marked.hash_of_all_keys());
  EXPECT_NE(marked.resolved_toml().find("\noptional = true\n"), std::string::npos);
  const Recipe again = recipe_of(marked.resolved_toml());
  EXPECT_TRUE(again.matches(llama_of(1)).front().is_optional);
}

}  // namespace
}  // namespace ng
