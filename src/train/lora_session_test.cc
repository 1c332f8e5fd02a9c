// Runs that train adapters: resumed to the bit, what they write, what they refuse.
#include "base/json.h"
#include "io/hf/folder.h"
#include "io/hf/peft_folder.h"
#include "io/safetensors.h"
#include "support/session_runs.h"

namespace ng {
namespace {

constexpr const char* kTrain =
    "seed = 3\ndata.validation = 0.05\n"
    "train = { steps=6, batch=2, warmup=2, lr=1e-2, validate_every=3, checkpoint_every=2,"
    " threads=1 }\n";

class LoraSession : public SessionRuns {
 protected:
  void SetUp() override {
    SessionRuns::SetUp();
    Listener listener;
    train(config({"train.steps=4"}), listener, false, "base");
  }
  [[nodiscard]] RunConfig adapting(std::vector<std::string> settings = {}) const {
    settings.insert(settings.begin(), {"data.train=" + in("text.txt"),
                                       "model.init=" + in("base/model"), "lora.rank=2"});
    return RunConfig::parse(kTrain, "run.toml", settings);
  }
};

TEST_F(LoraSession, InterruptedAnywhereEndsInTheSameBits) {
  for (const char* recipe : {"recipe=mxfp4-sr-rht", "recipe=fp8-lm"})
    for (const char* save : {"lora.save=merged", "lora.save=adapter"}) {
      SCOPED_TRACE(std::string(recipe) + " " + save);
      remove_all(in("out"));
      remove_all(in("unbroken"));
      expect_same_end_where_interrupted(
          [&](const std::vector<std::string>& settings) { return adapting(settings); },
          {recipe, save, "train.accumulate=2"});
    }
}

TEST_F(LoraSession, MergesOrWritesAPeftFolder) {
  Listener listener;
  const SessionResult result = train(adapting(), listener);
  EXPECT_FALSE(result.sample.empty());
  EXPECT_TRUE(listener.heard("parameters are trained"));
  const std::string base = in("base/model"), merged = in("out/model");
  EXPECT_EQ(io::read_hf_config(merged), io::read_hf_config(base));
  const io::Safetensors before(join_path(base, "model.safetensors"));
  const io::Safetensors after(join_path(merged, "model.safetensors"));
  for (const io::SafetensorsEntry& entry : before.entries()) {
    const bool is_adapted = entry.name.find("_proj.weight") != std::string::npos;
    EXPECT_EQ(io::to_floats(entry) != io::to_floats(after.at(entry.name)), is_adapted)
        << entry.name;
  }
  const std::map<std::string, std::string> files = contents(in("out/checkpoints"));
  for (const auto& [name, text] : files)
    EXPECT_EQ(text.find("weight.blocks.0.attn.q.weight"), std::string::npos) << name;
  remove_all(in("out"));
  train(adapting({"lora.save=adapter", "lora.targets=attn.q"}), listener);
  const io::Safetensors adapters(in("out/model/adapter_model.safetensors"));
  ASSERT_EQ(adapters.entries().size(), 2u);
  EXPECT_NE(adapters.find("base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"),
            nullptr);
  const Json config = parse_json(read_file(in("out/model/adapter_config.json"), kMaxFile), "");
  EXPECT_EQ(config["target_modules"], Json({"q_proj"}));
  EXPECT_EQ(config["base_model_name_or_path"], base);
}

TEST_F(LoraSession, RefusesByName) {
  const auto refused = [&](const std::vector<std::string>& settings) {
    try {
      return refusal(adapting(settings), false);
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(refused({"lora.targets=attn.x"}),
            "--set lora.targets=attn.x: lora.targets: \"attn.x\" means no linear layer of the "
            "model: \"blocks.*.attn.*\", which means 4 layers of this model");
  EXPECT_NE(refused({"recipe=gaussws-all"}).find("weight_noise in blocks.0.attn.q"),
            std::string::npos);
  EXPECT_NE(refused({"lora.rank=0", "lora.alpha=3"}).find("lora.alpha: 3 without lora.rank"),
            std::string::npos);
  EXPECT_NE(refused({"train.tensor_parallel=2"}).find("2 with lora.rank"), std::string::npos);
  try {
    (void)config({"lora.rank=2"});
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "--set lora.rank=2: lora.rank: 2 without model.init: a model folder whose weights "
              "stay as they are");
  }
}

TEST_F(LoraSession, GoesOnWithNoOtherAdaptersOrBase) {
  interrupt(adapting(), 2);
  EXPECT_NE(refusal(adapting({"lora.alpha=4"}), true).find("model"), std::string::npos);
  EXPECT_NE(refusal(adapting({"lora.rank=3"}), true).find("model"), std::string::npos);
  Listener listener;
  train(config({"train.steps=5"}), listener, false, "other");
  EXPECT_NE(refusal(adapting({"model.init=" + in("other/model")}), true).find("model.init"),
            std::string::npos);
}

}  // namespace
}  // namespace ng
