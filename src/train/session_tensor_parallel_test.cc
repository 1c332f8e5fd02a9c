// Whole runs whose layers are divided: what they leave is what any other ranks go on with, and what
// cannot be divided is refused in one line.
#include "comm/thread_ranks.h"
#include "io/checkpoint_files.h"
#include "support/session_runs.h"

namespace ng {
namespace {

struct Layout {
  int ranks = 1, tensor = 1;
};

class SessionTensorParallel : public SessionRuns {
 protected:
  /// Of four micro-batches of 32 tokens a step.
  [[nodiscard]] RunConfig config_of(const Layout& layout,
                                    std::vector<std::string> settings = {}) const {
    std::vector<std::string> all = {
        "model.heads=4",
        "model.kv_heads=4",
        "model.head_dim=8",
        "model.width=32",
        "model.ffn=64",
        "train.batch=4",
        "train.steps=4",
        "train.checkpoint_every=0",
        fmt::format("train.tensor_parallel={}", layout.tensor),
        fmt::format("train.accumulate={}", 4 * layout.tensor / layout.ranks)};
    all.insert(all.end(), settings.begin(), settings.end());
    return config(all);
  }

  SessionResult train_on(const Layout& layout, const std::vector<std::string>& settings,
                         bool resume = false, int64_t stop_after = -1) const {
    SessionResult first;
    run_ranks(layout.ranks, [&](Comm& comm) {
      Listener listener;
      listener.stop_after = stop_after;
      Session session(config_of(layout, settings),
                      {.out = in("out"), .resume = resume, .stop = &listener.stop, .comm = &comm},
                      listener);
      const SessionResult result = session.train();
      EXPECT_FALSE(listener.heard("are trained")) << "without adapters";
      if (comm.rank() == 0) first = result;
    });
    return first;
  }

  [[nodiscard]] std::string weights() const {
    return read_file(in("out/model/model.safetensors"), kMaxFile);
  }

  /// The one line by which such a run is refused.
  [[nodiscard]] std::string refusal_of(const Layout& layout,
                                       const std::vector<std::string>& settings) const {
    try {
      train_on(layout, settings);
    } catch (const Error& error) {
      EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos);
      EXPECT_FALSE(is_folder(in("out")));
      return error.what();
    }
    ADD_FAILURE() << "trained";
    return "";
  }
};

// Steps with rate 0 leave weights, and masters as they are stored.
TEST_F(SessionTensorParallel, AnyLayoutGoesOnFromTheCheckpointsOfAnother) {
  for (const char* recipe : {"fp32", "fp8-lm", "naive-bf16"})
    for (const char* architecture : {"gpt2", "llama"}) {
      SCOPED_TRACE(fmt::format("{} {}", recipe, architecture));
      remove_all(in("out"));
      const std::vector<std::string> settings = {
          fmt::format("recipe={}", recipe), fmt::format("model.architecture={}", architecture)};
      train_on({2, 2}, settings, false, 2);
      std::vector<std::string> still = settings;
      still.insert(still.end(), {"train.lr=0", "train.min_lr=0", "train.weight_decay=0"});
      // A run of two steps ends where that checkpoint is.
      std::vector<std::string> ended = still;
      ended.push_back("train.steps=2");
      train_on({1, 1}, ended, true);
      const std::string want = weights();
      int64_t done = 2;
      for (const Layout& layout : {Layout{4, 2}, Layout{2, 2}, Layout{4, 4}, Layout{2, 1}}) {
        remove_all(in("out/model"));
        std::vector<std::string> longer = still;
        longer.push_back(fmt::format("train.steps={}", ++done));
        const SessionResult result = train_on(layout, longer, true);
        EXPECT_EQ(result.steps, done);
        EXPECT_FALSE(result.sample.empty());
        EXPECT_TRUE(weights() == want) << layout.tensor << " of " << layout.ranks;
      }
    }
}

TEST_F(SessionTensorParallel, ABrokenRunEndsInTheBitsOfAnUnbrokenOne) {
  const std::vector<std::string> settings = {"recipe=fp8-lm"};
  train_on({4, 2}, settings);
  const std::map<std::string, std::string> want = contents(in("out"));
  remove_all(in("out"));
  train_on({4, 2}, settings, false, 3);
  train_on({4, 2}, settings, true);
  expect_same_end(want, 4);
  expect_whole_metrics(4, 3);
}

TEST_F(SessionTensorParallel, RefusesWhatDoesNotDivide) {
  const auto expect = [&](const Layout& layout, const std::vector<std::string>& settings,
                          const std::vector<std::string>& words) {
    const std::string line = refusal_of(layout, settings);
    for (const std::string& word : words)
      EXPECT_NE(line.find(word), std::string::npos) << word << " in " << line;
    EXPECT_NE(line.find("train.tensor_parallel"), std::string::npos) << line;
  };
  expect({1, 2}, {}, {"2 of 1 rank", "a divisor of the ranks"});
  expect({2, 2}, {"model.heads=5", "model.kv_heads=5"}, {"2 ranks for 5 heads"});
  expect({2, 2}, {"model.kv_heads=1"}, {"1 heads of keys and values"});
  expect({2, 2}, {"model.ffn=33"}, {"33 outputs of the feed-forward"});
  expect({2, 2}, {"train.batch=1", "model.context=7"}, {"7 tokens of a micro-batch"});
  expect({2, 2}, {"train.deterministic=global"}, {"global", "ranks"});
  expect({2, 2}, {"recipe=gaussws-all"}, {"weight_noise"});
  expect({2, 2}, {"recipe=adam-mini"}, {"adam_mini", "adamw or sgd"});
  expect({2, 2}, {"recipe=sr-bf16"}, {"weights.update"});
  expect({2, 2}, {"recipe=precision-aware-bf16"}, {"weights.update"});
  expect({2, 2}, {"recipe=int8"}, {"a scale for each row"});
  expect({2, 2}, {"recipe=bf16", "recipe.saved.activation={format='fp8_e4m3', block='row'}"},
         {"saved.activation has a scale for each row"});
  expect({2, 2}, {"recipe=bf16", "recipe.saved.attention={format='fp8_e4m3', block=[1, 128]}"},
         {"saved.attention: ", "columns stay together, in blocks of 128"});
  expect({2, 2}, {"recipe=mxfp4-sr-rht"}, {"blocks.0.attn.", "16 values on each"});
  expect({2, 2},
         {"recipe=mxfp4-all-mxint8-head", "model.heads=16", "model.kv_heads=16", "model.ffn=256"},
         {"head"});
  expect({2, 2},
         {"recipe=mxfp4-sr", "model.architecture=gpt2", "model.heads=16", "model.kv_heads=16",
          "model.width=128", "model.ffn=128"},
         {"stochastic", "q, k and v are one layer"});
}

}  // namespace
}  // namespace ng
