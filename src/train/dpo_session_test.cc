// Runs on pairs: resumed to the bit, the same on ranks, what they record and what they refuse.
#include <cmath>

#include "comm/thread_ranks.h"
#include "support/session_runs.h"

namespace ng {
namespace {

class DpoSession : public SessionRuns {
 protected:
  void SetUp() override {
    SessionRuns::SetUp();
    std::string lines;
    for (int i = 0; i < 20; ++i)
      lines += fmt::format(
          "{{\"prompt\": \"{0}\", \"chosen\": \"+{0}\", \"rejected\": \"-{1}\"}}\n", i, i % 10);
    write_file_atomically(in("pairs.jsonl"), lines);
  }
  [[nodiscard]] RunConfig pairs(std::vector<std::string> settings = {}) const {
    settings.insert(settings.begin(), {"data.train=" + in("pairs.jsonl"), "data.validation=0.2",
                                       "train.objective=dpo", "train.batch=4", "dpo.beta=0.5"});
    return config(settings);
  }
  /// Values of a key of metrics.jsonl, in order.
  [[nodiscard]] std::vector<double> recorded(const char* key) const {
    std::vector<double> values;
    const std::string text = read_file(in("out/metrics.jsonl"), kMaxFile);
    for (size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
      end = text.find('\n', begin);
      const Json line = Json::parse(text.substr(begin, end - begin));
      if (line.contains(key)) values.push_back(line[key]);
    }
    return values;
  }
  /// A model to start from, in the folder "base/model".
  void train_base() const {
    Listener listener;
    train(config({"train.steps=4"}), listener, false, "base");
  }
};

TEST_F(DpoSession, InterruptedAnywhereEndsInTheSameBits) {
  train_base();
  const std::string init = "model.init=" + in("base/model");
  for (const std::string recipe : {"recipe=mxfp4-sr-rht", "recipe=fp8-lm"}) {
    std::vector<std::string> settings = {recipe, "train.accumulate=2", "dpo.reference_storage=bf16",
                                         init};
    const auto init_only = [&](std::vector<std::string> more) {
      more.insert(more.begin(), {"data.train=" + in("pairs.jsonl"), "data.validation=0.2",
                                 "train.objective=dpo", "train.batch=4"});
      return RunConfig::parse(
          "seed = 3\ntrain = { steps=6, warmup=2, lr=1e-2, validate_every=3, "
          "checkpoint_every=2, threads=1 }\n",
          "run.toml", more);
    };
    remove_all(in("out"));
    remove_all(in("unbroken"));
    expect_same_end_where_interrupted(init_only, settings);
  }
}

TEST_F(DpoSession, GlobalRunsEndInTheSameBitsOnAnyNumberOfRanks) {
  const auto of = [&](int ranks) {
    return pairs({"train.deterministic=global", "recipe=mxfp4-sr-rht",
                  fmt::format("train.accumulate={}", 4 / ranks), "train.checkpoint_every=0"});
  };
  const std::map<std::string, std::string> want = unbroken(of(1));
  const auto losses_in = [&](const std::string& folder) {
    std::string kept;
    std::istringstream lines(read_file(in(folder + "/metrics.jsonl"), kMaxFile));
    for (std::string line; std::getline(lines, line);) {
      const Json json = Json::parse(line);
      for (const char* key : {"loss", "val_loss", "rewards/margins", "val_rewards/margins",
                              "logps/chosen", "val_rewards/accuracies"})
        if (json.contains(key)) kept += fmt::format("{} {:a}\n", key, json[key].get<double>());
    }
    return kept;
  };
  for (const int ranks : {2, 4}) {
    SCOPED_TRACE(ranks);
    remove_all(in("out"));
    run_ranks(ranks, [&](Comm& comm) {
      Listener listener;
      Session session(of(ranks), {.out = in("out"), .stop = &listener.stop, .comm = &comm},
                      listener);
      session.train();
    });
    EXPECT_GT(losses_in("unbroken").size(), 100u);
    EXPECT_EQ(losses_in("out"), losses_in("unbroken"));
    EXPECT_EQ(contents(in("out")).at("model/model.safetensors"),
              want.at("model/model.safetensors"));
  }
}

// The policy's scales move on with its steps, go into checkpoints and come back from there.
TEST_F(DpoSession, IsAtTheLogarithmOfTwoWhileWeightsAreTheSame) {
  train_base();
  const auto of = [&](const std::string& recipe) {
    const std::vector<std::string> settings = {"data.train=" + in("pairs.jsonl"),
                                               "data.validation=0.2",
                                               "train.objective=dpo",
                                               "train.batch=4",
                                               "dpo.beta=0.5",
                                               "model.init=" + in("base/model"),
                                               "recipe=" + recipe};
    return RunConfig::parse(
        "seed = 3\ntrain = { steps=4, warmup=0, lr=1e-12, min_lr=0.0, weight_decay=0.0, "
        "validate_every=1, threads=1 }\n",
        "run.toml", settings);
  };
  for (const char* recipe : {"fp8-delayed", "fp8-lm", "residual-bf16", "residual-fp8"}) {
    SCOPED_TRACE(recipe);
    remove_all(in("out"));
    interrupt(of(recipe), 2);
    resume(of(recipe));
    for (const char* key : {"loss", "val_loss"}) {
      EXPECT_EQ(recorded(key).size(), 4u);
      for (const double loss : recorded(key)) EXPECT_NEAR(loss, std::log(2.0), 1e-12) << key;
    }
    for (const char* key : {"rewards/margins", "val_rewards/margins", "rewards/chosen"})
      for (const double value : recorded(key)) EXPECT_EQ(value, 0) << key;
  }
}

TEST_F(DpoSession, RecordsWhatTrlDoes) {
  Listener listener;
  const SessionResult result = train(pairs(), listener);
  const std::vector<double> losses = recorded("loss");
  ASSERT_EQ(losses.size(), 6u);
  EXPECT_NEAR(losses.front(), std::log(2.0), 1e-12);
  EXPECT_LT(losses.back(), losses.front());
  for (const char* key : {"rewards/margins", "rewards/accuracies", "rewards/chosen",
                          "rewards/rejected", "logps/chosen", "logps/rejected"}) {
    EXPECT_EQ(recorded(key).size(), 6u) << key;
    EXPECT_EQ(recorded((std::string("val_") + key).c_str()).size(), 2u) << key;
  }
  EXPECT_EQ(recorded("rewards/margins").front(), 0);
  EXPECT_TRUE(recorded("val_bits_per_byte").empty());
  EXPECT_NEAR(recorded("val_rewards/margins").back(),
              recorded("val_rewards/chosen").back() - recorded("val_rewards/rejected").back(),
              1e-12);
  ASSERT_TRUE(result.validation.has_value());
  EXPECT_EQ(recorded("val_loss").back(), result.validation->loss);
  EXPECT_FALSE(result.sample.empty());
  const std::string text = read_file(in("out/metrics.jsonl"), kMaxFile);
  const size_t begin = text.rfind('\n', text.find("\"event\":\"memory\"")) + 1;
  const Json memory = Json::parse(text.substr(begin, text.find('\n', begin) - begin));
  EXPECT_EQ(memory["roles"]["reference"], memory["stored"]["reference"]["bytes"]);
  EXPECT_EQ(memory["roles"]["policy"], 4 * memory["stored"]["weight"]["bytes"].get<int64_t>());
  EXPECT_EQ(memory["most"]["reference"], memory["roles"]["reference"]);
}

TEST_F(DpoSession, ARunGoesOnFromItsOwnReferenceAlone) {
  train_base();
  const auto of = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"data.train=" + in("pairs.jsonl"), "train.objective=dpo",
                               "model.init=" + in("base/model")});
    return RunConfig::parse("seed = 3\ntrain = { steps=4, batch=4, threads=1 }\n", "run.toml",
                            more);
  };
  interrupt(of({}), 2);
  Listener listener;
  listener.stop_after = 3;
  train(of({"dpo.beta=0.2"}), listener, true);
  EXPECT_TRUE(listener.heard("dpo.beta = 0.2, but 0.1 until here"));
  remove_all(in("base"));
  Listener base;
  train(config({"train.steps=5"}), base, false, "base");
  const std::string other = refusal(of({}), true);
  EXPECT_NE(other.find("reference: "), std::string::npos) << other;
  EXPECT_NE(other.find("the same weights in model.init to resume"), std::string::npos) << other;
}

TEST_F(DpoSession, RefusesInOneLine) {
  const auto wrong = [&](const std::string& setting) {
    try {
      return refusal(pairs({setting}), false);
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(wrong("train.batch=3"),
            "--set train.batch=3: train.batch: 3 sequences, and a pair is two: an even number");
  EXPECT_EQ(wrong("train.objective=cross_entropy"),
            "--set train.objective=cross_entropy: dpo.beta: 0.5 without train.objective = "
            "\"dpo\": that, or neither");
  EXPECT_NE(wrong("dpo.beta=0").find("dpo.beta: 0: "), std::string::npos);
  EXPECT_NE(wrong("dpo.reference_storage=fp5").find("dpo.reference_storage: "), std::string::npos);
  EXPECT_NE(wrong("dpo.reference_storage={format='bf16', rounding='stochastic'}")
                .find("nearest: a reference draws nothing"),
            std::string::npos);
  EXPECT_NE(wrong("data.train=" + in("text.txt")).find("text.txt is no .jsonl file: lines of {"),
            std::string::npos);
  const std::string too_long = wrong("model.context=2");
  EXPECT_NE(too_long.find("pairs.jsonl:"), std::string::npos) << too_long;
  EXPECT_NE(too_long.find(" tokens: at most 2, "), std::string::npos) << too_long;
  write_file_atomically(in("pairs.jsonl"), "\n{\"prompt\": \"a\", \"chosen\": \"b\"}\n");
  EXPECT_EQ(wrong("seed=1"), in("pairs.jsonl") + ":2: rejected: missing: a string");
  EXPECT_FALSE(is_folder(in("out")));
}

}  // namespace
}  // namespace ng
