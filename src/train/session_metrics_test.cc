// What runs with narrow weights and states record, say and save.
#include "io/safetensors.h"
#include "math/round.h"
#include "support/session_runs.h"

namespace ng {
namespace {

class SessionMetrics : public SessionRuns {
 protected:
  [[nodiscard]] std::vector<Json> lines() const {
    const std::string text = read_file(in("out/metrics.jsonl"), kMaxFile);
    std::vector<Json> lines;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = text.find('\n', begin);
      lines.push_back(Json::parse(text.substr(begin, end - begin)));
      begin = end + 1;
    }
    return lines;
  }
  [[nodiscard]] std::vector<Json> events(const std::string& name) const {
    std::vector<Json> found;
    for (const Json& line : lines())
      if (line.value("event", "") == name) found.push_back(line);
    return found;
  }
  [[nodiscard]] std::map<std::string, std::vector<float>> saved_weights() const {
    std::map<std::string, std::vector<float>> weights;
    const io::Safetensors file(in("out/model/model.safetensors"));
    for (const io::SafetensorsEntry& entry : file.entries())
      weights[entry.name] = io::to_floats(entry);
    return weights;
  }
};

TEST_F(SessionMetrics, AnObserverHearsEveryLine) {
  Listener listener;
  train(config({}), listener);
  EXPECT_EQ(listener.lines, lines());
  EXPECT_GT(listener.lines.size(), 8u);
}

TEST_F(SessionMetrics, BytesStandBesideThoseOfFp32) {
  Listener listener;
  train(config({"recipe=residual-bf16"}), listener);
  ASSERT_EQ(events("memory").size(), 1u);
  const Json memory = events("memory").front();
  EXPECT_EQ(memory["step"], 0);
  const auto parameters = memory["parameters"].get<double>();
  EXPECT_EQ(memory["stored"]["weight"]["kind"], "weights");
  EXPECT_EQ(memory["stored"]["weight"]["elements"], Json::parse("[\"bf16\", \"fp32\"]"));
  EXPECT_EQ(memory["stored"]["carry"]["elements"], Json::parse("[\"int8\"]"));
  const double weight = memory["stored"]["weight"]["bytes"],
               carry = memory["stored"]["carry"]["bytes"];
  EXPECT_EQ(memory["most"]["weights"].get<double>(), weight + carry);
  EXPECT_LT(carry, 1.1 * parameters);  // small tensors fill whole cache lines
  EXPECT_GE(memory["fp32_most"]["weights"].get<double>(), 4 * parameters);
  double total = 0;
  for (const auto& [kind, bytes] : memory["at_peak"].items()) total += bytes.get<double>();
  EXPECT_EQ(total, memory["total"].get<double>());
}

TEST_F(SessionMetrics, StepsOneAndTheLastTellWhatUpdatesDid) {
  Listener listener;
  train(config({"recipe=precision-aware-bf16"}), listener);
  for (const Json& line : lines()) {
    if (!line.contains("loss")) continue;
    const bool is_detailed = line["step"] == 1 || line["step"] == 6;
    ASSERT_EQ(line.contains("updates"), is_detailed) << line["step"];
    if (!is_detailed) continue;
    EXPECT_FALSE(line["updates"].contains("norm.weight")) << "vectors are left out";
    for (const char* name :
         {"embed.weight", "blocks.0.attn.q.weight", "blocks.0.mlp.down.weight"}) {
      const Json& update = line["updates"][name];
      EXPECT_NEAR(update["ratio"].get<double>(), 1, 0.02) << name;
      EXPECT_GT(update["changed"].get<double>(), 0) << name;
      EXPECT_LE(update["cosine"].get<double>(), 1.0001) << name;
      EXPECT_GT(update["alpha_over_lr"].get<double>(), 0.5) << name;
    }
  }
}

TEST_F(SessionMetrics, FullPrecisionUpdatesDoWhatIsAsked) {
  Listener listener;
  train(config(), listener);
  const Json update = lines().at(3)["updates"]["blocks.0.mlp.up.weight"];
  EXPECT_NEAR(update["ratio"].get<double>(), 1, 1e-3);
  EXPECT_NEAR(update["projection"].get<double>(), 1, 1e-3);
  EXPECT_FALSE(update.contains("alpha_over_lr"));
}

// What casts of noisy weights lost is in the lines, by layer in the last, and in the result.
TEST_F(SessionMetrics, LossesOfNoisyWeightsAreTold) {
  Listener listener;
  const auto trained = [&](const char* cast) {
    remove_all(in("out"));
    return train(config({"recipe=gaussws-all", std::string("recipe.weight_noise.cast=") + cast}),
                 listener)
        .noisy_weights;
  };
  EXPECT_EQ(trained("bf16").values, 0u) << "nothing is lost, nothing counted";
  const OperandStats lost = trained("mxfp8_e4m3");
  EXPECT_EQ(lost.values, 1u * (2 * 12 * 12 + 2 * 6 * 12 + 3 * 12 * 20));
  EXPECT_NEAR(static_cast<double>(lost.narrowed) / static_cast<double>(lost.values), 15.0 / 16,
              0.05);
  for (const Json& line : lines())
    if (line["step"] == 6 && line.contains("operands")) {
      const Json& up = line["operands"]["blocks.0.mlp.up"]["fprop.weight"];
      EXPECT_NEAR(up["narrowed"].get<double>(), 15.0 / 16, 0.1);
      return;
    }
  FAIL() << "no line of the last step";
}

/// Gives one matrix a gradient that FP16 does not hold the square of, in step 3.
struct WithHugeGradients : Listener {
  void started(Session& session, int64_t) override {
    session.trainer().set_gradient_observer([this, &session] {
      if (steps_done++ < 2) return;
      for (Parameter& parameter : session.model().parameters())
        if (parameter.spec.name == "embed.weight")
          session.run().execute(Fill{.x = parameter.grad, .value = 3000.0f});
    });
  }
  int steps_done = 0;
};

TEST_F(SessionMetrics, AStateThatOverflowsIsNamedAndEndsTheRun) {
  const std::vector<std::string> settings = {recipe_file("name='narrow'\noptimizer.moment2='fp16'"),
                                             "train.clip=0", "train.steps=30", "model.width=96",
                                             "model.head_dim=48"};
  WithHugeGradients listener;
  try {
    train(config(settings), listener);
    FAIL() << "trained";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("moment2.embed.weight: beyond the range of fp16 in 5 steps in a row"),
              std::string::npos)
        << text;
  }
  EXPECT_TRUE(listener.heard("skipped: moment2.embed.weight is beyond the range of fp16"));
  ASSERT_FALSE(events("skipped step").empty());
  EXPECT_EQ(events("skipped step").front()["origin"], "moment2.embed.weight");
}

TEST_F(SessionMetrics, SavedWeightsAreThoseStoredRoundedOnce) {
  for (const char* recipe : {"recipe=residual-bf16", "recipe=residual-fp8", "recipe=naive-bf16"}) {
    SCOPED_TRACE(recipe);
    remove_all(in("out"));
    Listener listener;
    train(config({recipe}), listener);
    const auto stored = saved_weights();
    remove_all(in("out"));
    train(config({recipe, "train.save_dtype=BF16"}), listener);
    const auto rounded = saved_weights();
    ASSERT_EQ(stored.size(), rounded.size());
    for (const auto& [name, values] : stored) {
      const std::vector<float>& have = rounded.at(name);
      ASSERT_EQ(have.size(), values.size()) << name;
      for (size_t i = 0; i < values.size(); ++i)
        ASSERT_EQ(have[i], round_to_bf16(values[i])) << name << ' ' << i;
    }
    const Json config = Json::parse(read_file(in("out/model/config.json"), kMaxFile));
    EXPECT_EQ(config.value("torch_dtype", config.value("dtype", "")), "bfloat16");
  }
}

}  // namespace
}  // namespace ng
