// Runs whose adapters differ by layer, stand beside whole modules, or go on from a folder.
#include "base/json.h"
#include "io/hf/peft_folder.h"
#include "io/hf/peft_start.h"
#include "io/model_files.h"
#include "io/safetensors.h"
#include "support/session_runs.h"

namespace ng {
namespace {

constexpr const char* kAdapterTrain =
    "seed = 3\ndata.validation = 0.05\nlora.rank = 4\n"
    "train = { steps=6, batch=2, warmup=2, lr=1e-2, validate_every=3, checkpoint_every=2,"
    " threads=1 }\n";

using NamedValues = std::map<std::string, std::vector<float>>;

/// All parameters of a model by name.
NamedValues values_by_name(const io::ModelName& model) {
  const ModelConfig config = io::read_model_config(model);
  const std::vector<ParameterSpec> table = parameter_table(config);
  NamedValues values;
  io::copy_parameters(config, io::open_model_weights(model, config),
                      [&](size_t index, int64_t, std::span<const float> row) {
                        std::vector<float>& all = values[table[index].name];
                        all.insert(all.end(), row.begin(), row.end());
                      });
  return values;
}

class LoraVariants : public SessionRuns {
 protected:
  void SetUp() override {
    SessionRuns::SetUp();
    Listener listener;
    train(config({"train.steps=4", "model.tie_embeddings=true", "model.layers=2"}), listener, false,
          "base");
  }
  [[nodiscard]] RunConfig adapting(const std::vector<std::string>& more = {},
                                   const std::string& toml = kAdapterTrain) const {
    std::vector<std::string> settings = {"data.train=" + in("text.txt"),
                                         "model.init=" + in("base/model")};
    settings.insert(settings.end(), more.begin(), more.end());
    return RunConfig::parse(toml, "run.toml", settings);
  }
  /// What a run ends in, as it is written merged; checked against its PEFT folder.
  NamedValues trained(std::vector<std::string> settings) {
    Listener listener;
    remove_all(in("merged"));
    remove_all(in("adapter"));
    train(adapting(settings), listener, false, "merged");
    settings.emplace_back("lora.save=adapter");
    train(adapting(settings), listener, false, "adapter");
    NamedValues merged = values_by_name(in("merged/model"));
    EXPECT_EQ(values_by_name(in("adapter/model")), merged);
    return merged;
  }
  [[nodiscard]] Json written_config() const {
    return parse_json(read_file(in("adapter/model/adapter_config.json"), kMaxFile), "");
  }
  std::string refused(const std::vector<std::string>& settings,
                      const std::string& toml = kAdapterTrain) {
    try {
      return refusal(adapting(settings, toml), false);
    } catch (const Error& error) {
      return error.what();
    }
  }
};

TEST_F(LoraVariants, RanksAndAlphasDifferByLayer) {
  (void)trained({R"(lora.rank_pattern={"attn.*"=2, "attn.q"=1, "blocks.1.mlp.up"=8})",
                 R"(lora.alpha_pattern={"blocks.0.*"=8, "mlp.down"=2})"});
  const Json config = written_config();
  EXPECT_EQ(config["rank_pattern"], Json({{"k_proj", 2},
                                          {"model.layers.1.mlp.up_proj", 8},
                                          {"o_proj", 2},
                                          {"q_proj", 1},
                                          {"v_proj", 2}}));
  Json alphas = {{"model.layers.1.mlp.down_proj", 2}};
  for (const char* part : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                           "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"})
    alphas[fmt::format("model.layers.0.{}", part)] = 8;
  EXPECT_EQ(config["alpha_pattern"], alphas);
  const io::Safetensors file(in("adapter/model/adapter_model.safetensors"));
  EXPECT_EQ(file.at("base_model.model.model.layers.1.mlp.up_proj.lora_B.weight").shape[1], 8);
}

TEST_F(LoraVariants, ScalesMayFallByTheRootOfTheRank) {
  const NamedValues plain = trained({});
  EXPECT_EQ(written_config()["use_rslora"], false);
  EXPECT_NE(trained({"lora.rank_stabilized=true"}), plain);
  EXPECT_EQ(written_config()["use_rslora"], true);
}

TEST_F(LoraVariants, WholeModulesAreTrainedBesideThem) {
  const NamedValues base = values_by_name(in("base/model"));
  const NamedValues after = trained({R"(lora.modules_to_save=["embed", "norm", "blocks.1.norm1"])",
                                     R"(lora.targets=["attn.q"])"});
  for (const auto& [name, values] : base) {
    const bool is_trained = name == "embed.weight" || name == "norm.weight" ||
                            name == "blocks.1.norm1.weight" || name.ends_with("attn.q.weight");
    EXPECT_EQ(values != after.at(name), is_trained) << name;
  }
  EXPECT_EQ(
      written_config()["modules_to_save"],
      Json({"model.embed_tokens", "lm_head", "model.layers.1.input_layernorm", "model.norm"}));
}

TEST_F(LoraVariants, InterruptedTheyEndInTheSameBits) {
  expect_same_end_where_interrupted(
      [&](const std::vector<std::string>& settings) { return adapting(settings); },
      {"recipe=fp8-lm", R"(lora.rank_pattern={"attn.q"=1})", "lora.rank_stabilized=true",
       R"(lora.modules_to_save=["embed", "norm2"])", "train.accumulate=2"});
}

TEST_F(LoraVariants, ARunGoesOnFromAFolder) {
  (void)trained({R"(lora.rank_pattern={"attn.q"=1})", R"(lora.alpha_pattern={"mlp.up"=3})",
                 R"(lora.modules_to_save=["embed", "norm"])",
                 R"(lora.targets=["attn.q", "mlp.*"])"});
  const auto files = [&](const std::string& run) {
    return contents(in(run + "/model")).at("adapter_model.safetensors");
  };
  Listener listener;
  const std::vector<std::string> settings = {"lora.rank=0", "lora.init=" + in("adapter/model"),
                                             "lora.save=adapter", "train.weight_decay=0"};
  std::vector<std::string> nothing = settings;
  nothing.emplace_back("train.lr=0");
  train(adapting(nothing), listener, false, "still");
  EXPECT_EQ(files("still"), files("adapter"));
  train(adapting(settings), listener, false, "on");
  EXPECT_NE(files("on"), files("adapter"));
  EXPECT_EQ(read_file(in("on/model/adapter_config.json"), kMaxFile),
            read_file(in("still/model/adapter_config.json"), kMaxFile));
}

TEST_F(LoraVariants, WhatMeansNothingIsRefusedByName) {
  EXPECT_EQ(refused({R"(lora.targets=["attn.q"])", R"(lora.rank_pattern={"attn.k"=2})"}),
            "--set lora.rank_pattern={\"attn.k\"=2}: lora.rank_pattern: \"attn.k\" means no layer "
            "with an adapter: \"blocks.*.attn.*\", which means 2 layers of this model");
  EXPECT_EQ(refused({R"(lora.rank_pattern={"attn.k"=0})"}),
            "--set lora.rank_pattern={\"attn.k\"=0}: lora.rank_pattern.\"attn.k\": 0: a whole "
            "number from 1 to 65536");
  EXPECT_EQ(refused({"lora.modules_to_save=attn.q"}),
            "--set lora.modules_to_save=attn.q: lora.modules_to_save: \"attn.q\" means no layer "
            "without an adapter: patterns of blocks.N. with norm1 norm2, or embed norm");
  const std::string init = "lora.init=" + in("base/model");
  EXPECT_EQ(refused({init}), "--set " + init +
                                 ": lora.rank: 4 with lora.init, whose folder says it: one of the "
                                 "two");
  EXPECT_EQ(refused({init, "lora.rank=0"}),
            "--set " + init + ": lora.init: \"" + in("base/model") +
                "\" holds no adapters: a folder with an adapter_config.json");
}

// Of the folders of PEFT's in tests/golden.
TEST(PeftStart, RefusesWhatIsNotTrained) {
  const std::string golden = std::string(NG_SOURCE_DIR) + "/tests/golden/";
  const auto said = [&](const std::string& folder, const std::string& base) -> std::string {
    try {
      const ModelConfig config = io::read_model_config(golden + "models/" + base);
      (void)io::PeftStart(golden + "lora/" + folder, config);
    } catch (const Error& error) {
      return error.parts().key + ": " + error.parts().problem;
    }
    return "";
  };
  EXPECT_EQ(said("dora", "qwen2_tiny"), "use_dora: true: DoRA is not trained here");
  EXPECT_EQ(said("biases", "qwen2_tiny"), "lora_bias: true: a bias of B is not trained here");
  EXPECT_EQ(
      said("saved", "qwen2_tiny"),
      "modules_to_save: an embedding of another size, or untied from the head, is not trained "
      "here");
  EXPECT_EQ(said("qwen2_tiny", "qwen2_tiny"), "");
  EXPECT_EQ(said("gpt2_tiny", "gpt2_tiny"), "");
}

}  // namespace
}  // namespace ng
