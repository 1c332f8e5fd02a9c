// Whoever updates the rows of a tensor, and in how many pieces, its one scale and its bits are the
// same.
#include "train/shared_scales.h"

#include <gtest/gtest.h>

#include "comm/thread_ranks.h"
#include "plan/rank_traffic.h"
#include "support/tiny_run.h"

namespace ng {
namespace {

/// Whose matrices of the feed-forward layer, 700 x 20 and 20 x 700, are most of it.
ModelConfig wide_shared_model() {
  ModelConfig model = tiny_llama();
  model.layers = 1;
  model.ffn = 700;
  return model;
}

struct SharedCase {
  std::string name, keys;
};

const std::vector<SharedCase>& shared_cases() {
  static const std::vector<SharedCase> all = {
      {"fp8-lm", "inherit = 'fp8-lm'\n"},
      {"states of fp8-lm",
       "inherit = 'fp8-lm'\n"
       "gradient.communicate = 'fp32'\ngradient.reduce = 'fp32'\ngradient.auto_scale = false\n"},
      {"no master",
       "weights.storage = { format = 'fp8_e4m3', scale = 'pow2' }\n"
       "optimizer.moment1 = { format = 'fp8_e4m3', scale = 'pow2' }\n"},
      {"stochastic",
       "weights = { storage = { format = 'fp8_e5m2', scale = 'fp32' }, update = 'stochastic' }\n"
       "optimizer.moment2 = { format = 'fp16', block = 'tensor', scale = 'pow2' }\n"},
      {"blocks of rows",
       "weights = { storage = 'mxfp8_e4m3', master = 'fp16' }\n"
       "optimizer.moment1 = { format = 'fp8_e4m3', block = [32, 16] }\n"},
      {"copies",
       "inherit = 'bf16'\n"
       "communication.weights = { format = 'fp8_e4m3', scale = 'pow2' }\n"},
      {"sgd", "optimizer = { kind = 'sgd', moment1 = { format = 'fp8_e4m3', scale = 'pow2' } }\n"},
  };
  return all;
}

TinyRunOptions options_of(const SharedCase& c, const std::string& shard) {
  return {.model = wide_shared_model(),
          .recipe = "name = 'shared scales'\n" + c.keys + "gradient.shard = '" + shard + "'\n"};
}

struct SharedOutcome {
  std::vector<float> weights;
  std::vector<double> losses, norms;
  friend bool operator==(const SharedOutcome&, const SharedOutcome&) = default;
};

/// Of three steps of twenty micro-batches, on ranks that all come to the same. `most`: pieces of
/// one tensor that one rank owns.
SharedOutcome train_shared(TinyRunOptions options, int ranks, size_t* most = nullptr) {
  std::vector<SharedOutcome> outcomes(static_cast<size_t>(ranks));
  std::vector<size_t> pieces(outcomes.size());
  run_ranks(ranks, [&](Comm& comm) {
    const auto rank = static_cast<size_t>(comm.rank());
    TinyRunOptions mine = options;
    mine.micros = 20 * mine.tensor / ranks;
    mine.comm = &comm;
    TinyRun tiny(mine);
    for (size_t i = 0; i < tiny.model().parameters().size(); ++i)
      if (tiny.model().parameters()[i].spec.name.starts_with("blocks"))
        pieces[rank] = std::max(pieces[rank], tiny.model().owned_of(i).size());
    SharedOutcome& mine_is = outcomes[rank];
    for (int64_t step = 0; step < 3; ++step) {
      const StepReport report = tiny.step(step);
      EXPECT_FALSE(report.skipped);
      mine_is.losses.push_back(report.loss);
      mine_is.norms.push_back(report.grad_norm);
    }
    mine_is.weights = tiny.weights();
  });
  for (const SharedOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.losses, outcomes.front().losses);
    EXPECT_TRUE(options.tensor > 1 || outcome == outcomes.front());
  }
  if (most != nullptr) *most = *std::max_element(pieces.begin(), pieces.end());
  return outcomes.front();
}

TEST(SharedScales, RowsHaveTheBitsOfWholeTensors) {
  for (const SharedCase& c : shared_cases())
    for (const int ranks : {2, 4, 5}) {
      SCOPED_TRACE(fmt::format("{} on {} ranks", c.name, ranks));
      size_t of_whole = 0, of_rows = 0;
      const SharedOutcome want = train_shared(options_of(c, "tensor"), ranks, &of_whole);
      EXPECT_TRUE(train_shared(options_of(c, "flat"), ranks, &of_rows) == want);
      EXPECT_EQ(of_whole, 1u);
      EXPECT_GE(of_rows, ranks > 2 ? 2u : 1u) << "pieces of one tensor on one rank";
    }
}

TEST(SharedScales, GlobalBitsDoNotDependOnTheRanks) {
  for (const SharedCase& c : shared_cases()) {
    if (c.name == "fp8-lm") continue;  // what it sends depends on them
    SCOPED_TRACE(c.name);
    TinyRunOptions options = options_of(c, "flat");
    options.determinism = Determinism::global;
    const SharedOutcome want = train_shared(options, 1);
    for (const int ranks : {2, 4}) EXPECT_TRUE(train_shared(options, ranks) == want) << ranks;
  }
}

// Two ranks have parts of a layer, each of which four own rows of.
TEST(SharedScales, PartsOfLayersAreDividedByRowsToo) {
  for (const SharedCase& c : {shared_cases()[0], shared_cases()[2]}) {
    SCOPED_TRACE(c.name);
    TinyRunOptions whole = options_of(c, "tensor"), rows = options_of(c, "flat");
    for (TinyRunOptions* options : {&whole, &rows}) {
      options->tensor = 2;
      options->sequences = 4;
      options->length = 8;
      options->model.kv_heads = 2;
      options->model.head_dim = 16;
      options->model.width = 32;
      options->model.layers = 1;
      options->model.ffn = 4096;
    }
    size_t most = 0;
    EXPECT_TRUE(train_shared(rows, 8, &most) == train_shared(whole, 8));
    EXPECT_GT(most, 1u);
  }
}

TEST(SharedScales, BytesSentAreThoseOfTheModel) {
  const auto backend = make_backend("ref", Threads{1});
  for (const SharedCase& c : shared_cases()) {
    SCOPED_TRACE(c.name);
    const TinyRunOptions options = options_of(c, "flat");
    const Recipe recipe = Recipe::parse(options.recipe, "test.toml");
    const RankPlan plan(*backend, options.model, recipe, {.ranks = 3});
    const std::vector<BytesByTraffic> planned = traffic_by_rank(
        plan.partition(), sent_tensors(plan.parameters(), recipe, options.model.layers));
    run_ranks(3, [&](Comm& comm) {
      TinyRunOptions mine = options;
      mine.comm = &comm;
      TinyRun tiny(mine);
      const BytesByTraffic before = comm.sent();
      (void)tiny.step(0);
      const BytesByTraffic sent = since(before, comm.sent());
      for (const Traffic kind : {Traffic::gradients, Traffic::weights, Traffic::scales})
        EXPECT_EQ(sent[static_cast<size_t>(kind)],
                  planned[static_cast<size_t>(comm.rank())][static_cast<size_t>(kind)])
            << comm.rank() << ' ' << name_of(kind);
    });
  }
}

}  // namespace
}  // namespace ng
