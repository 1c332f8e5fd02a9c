// Ranks that train_ranks one model: the same bits for any number of them where that is promised,
// the mean over all of them everywhere.
#include "train/data_parallel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <mutex>

#include "comm/thread_ranks.h"
#include "plan/rank_traffic.h"
#include "support/tiny_run.h"

namespace ng {
namespace {

const char* const kDelayed =
    "name = \"delayed\"\n"
    "linear.fprop = { input={format=\"fp8_e4m3\", scaling=\"delayed\"}, weight=\"fp8_e4m3\" }\n";

/// What a rank has after some steps.
struct Outcome {
  std::vector<float> weights;
  std::vector<double> losses, norms;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome outcome_of(TinyRun& tiny, int64_t steps) {
  Outcome outcome;
  for (int64_t step = 0; step < steps; ++step) {
    const StepReport report = tiny.step(step);
    EXPECT_FALSE(report.skipped);
    outcome.losses.push_back(report.loss);
    outcome.norms.push_back(report.grad_norm);
  }
  outcome.weights = tiny.weights();
  return outcome;
}

/// Of `micros` micro-batches on so many ranks, all of which must come to the same.
Outcome train_ranks(TinyRunOptions options, int ranks, int64_t micros, int64_t steps = 3) {
  std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](Comm& comm) {
    TinyRunOptions mine = options;
    mine.micros = micros / ranks;
    mine.comm = &comm;
    TinyRun tiny(mine);
    outcomes[static_cast<size_t>(comm.rank())] = outcome_of(tiny, steps);
  });
  for (const Outcome& outcome : outcomes) EXPECT_TRUE(outcome == outcomes.front());
  return outcomes.front();
}

struct Case {
  std::string name;
  TinyRunOptions options;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string recipe :
       {"fp32", "bf16", "mxfp4-sr-rht", "nvfp4", "gaussws-all", "nipq", "sr-bf16"})
    all.push_back({recipe, {.recipe = "name = \"of ranks\"\ninherit = \"" + recipe + "\"\n"}});
  all.push_back({"delayed", {.recipe = kDelayed}});
  // Tables of tokens whose rows have several owners, with draws and states of all kinds.
  for (const std::string recipe :
       {"fp32", "sr-bf16", "kahan-bf16", "residual-bf16", "feedback-bf16", "adamw-fp8-states",
        "coat-adamw", "adam8bit", "adam-mini", "muon"}) {
    Case cut{"cut " + recipe, {.recipe = "name = \"of ranks\"\ninherit = \"" + recipe + "\"\n"}};
    cut.options.model.vocab = 700;
    cut.options.model.tie_embeddings = recipe != "sr-bf16";
    all.push_back(cut);
  }
  all.push_back({"gpt2", {.model = tiny_gpt2()}});
  return all;
}

TEST(DataParallel, GlobalBitsDoNotDependOnTheRanks) {
  for (Case& c : cases()) {
    SCOPED_TRACE(c.name);
    c.options.determinism = Determinism::global;
    const Outcome want = train_ranks(c.options, 1, 8);
    for (const int ranks : {2, 4, 8})
      EXPECT_TRUE(train_ranks(c.options, ranks, 8) == want) << ranks;
  }
}

TEST(DataParallel, GlobalBitsOnRanksThatAreNoPowerOfTwo) {
  TinyRunOptions options{.determinism = Determinism::global};
  const Outcome want = train_ranks(options, 1, 6);
  for (const int ranks : {2, 3, 6}) EXPECT_TRUE(train_ranks(options, ranks, 6) == want) << ranks;
}

// 130 and 65 micro-batches of a rank lie in tensors that are kept, 26 one by one.
TEST(DataParallel, GlobalBitsOfManyMicroBatchesAreThose) {
  TinyRunOptions options{.determinism = Determinism::global};
  options.model.tie_embeddings = true;
  const Outcome want = train_ranks(options, 5, 130);
  for (const int ranks : {1, 2}) EXPECT_TRUE(train_ranks(options, ranks, 130) == want) << ranks;
}

/// Gradients that travel in few bits.
std::vector<Case> narrow_cases() {
  std::vector<Case> all = {{"fp8-lm", {.recipe = "name = \"of ranks\"\ninherit = \"fp8-lm\"\n"}}};
  for (const std::string wire :
       {"{ format = \"fp8_e4m3\", scale = \"pow2\" }", "\"mxfp8_e4m3\"", "\"nvfp4\"", "\"bf16\"",
        "{ format = \"mxfp4\", rounding = \"stochastic\" }"})
    all.push_back({wire, {.recipe = "name = \"wire\"\ngradient.communicate = " + wire + "\n"}});
  return all;
}

TEST(DataParallel, RowsOfTablesHaveSeveralOwners) {
  for (const Case& c : cases()) {
    if (!c.name.starts_with("cut")) continue;
    run_ranks(4, [&](Comm& comm) {
      TinyRunOptions options = c.options;
      options.comm = &comm;
      TinyRun tiny(options);
      EXPECT_GT(tiny.model().partition().of(0).size(), 1u) << c.name;
    });
  }
}

/// Weights of ranks that all have the same micro-batches, after some steps.
std::vector<float> weights_of_equal_ranks(TinyRunOptions options, int ranks, int64_t steps) {
  std::vector<float> all;
  options.clip = 0;  // norms are added in another order
  run_ranks(ranks, [&](Comm& comm) {
    TinyRunOptions mine = options;
    mine.comm = &comm;
    TinyRun tiny(mine);
    for (int64_t step = 0; step < steps; ++step) {
      tiny.fill(step);
      const BatchSpans to = tiny.trainer().train_tokens(0);
      for (size_t i = 0; i < to.inputs.size(); ++i) {
        to.inputs[i] = static_cast<int32_t>((i * 7 + static_cast<size_t>(step)) % 37);
        to.targets[i] = static_cast<int32_t>((i * 5 + 1) % 37);
      }
      EXPECT_FALSE(tiny.trainer().step(step, 1e-2f).skipped);
    }
    if (comm.rank() == 0) all = tiny.weights();
  });
  return all;
}

// One process rounds as it would send, so that the mean of equal gradients is one of them: exactly
// where the number of ranks is a power of two. [errata-2, 33]
TEST(DataParallel, EqualRanksTrainAsOne) {
  for (const Case& c : narrow_cases()) {
    if (c.name == "fp8-lm" || c.name.find("stochastic") != std::string::npos) continue;
    SCOPED_TRACE(c.name);
    const std::vector<float> one = weights_of_equal_ranks(c.options, 1, 3);
    EXPECT_TRUE(weights_of_equal_ranks(c.options, 2, 3) == one);
    EXPECT_TRUE(weights_of_equal_ranks(c.options, 4, 3) == one);
  }
}

// Of more elements than are sent at once.
TEST(DataParallel, LargeTensorsTravelInParts) {
  TinyRunOptions options{.determinism = Determinism::global};
  options.model.layers = 1;
  options.model.vocab = 220'000;
  EXPECT_TRUE(train_ranks(options, 2, 2, 1) == train_ranks(options, 1, 2, 1));
  options.model.vocab = 37;
  options.model.ffn = 220'000;
  options.determinism = Determinism::ranks;
  for (const std::string wire : {"{ format = \"fp8_e4m3\", scale = \"pow2\" }", "\"nvfp4\""}) {
    SCOPED_TRACE(wire);
    options.recipe = "name = \"wire\"\ngradient.communicate = " + wire + "\n";
    const std::vector<float> one = weights_of_equal_ranks(options, 1, 1);
    EXPECT_TRUE(weights_of_equal_ranks(options, 2, 1) == one);
  }
}

TEST(DataParallel, RanksRepeatTheirBits) {
  std::vector<Case> all = narrow_cases();
  for (const Case& c : cases())
    for (const char* name : {"fp32", "bf16", "mxfp4-sr-rht", "nvfp4", "nipq", "delayed"})
      if (c.name == name) all.push_back(c);
  for (const Case& c : all) {
    SCOPED_TRACE(c.name);
    EXPECT_TRUE(train_ranks(c.options, 3, 6) == train_ranks(c.options, 3, 6));
  }
}

// The mean over ranks is that over micro-batches: sums of FP32 differ in their order alone. Adam
// divides by the gradient's size, so that a weight whose gradient is all but 0 may move either way:
// norms and losses are compared, and of weights how many differ.
TEST(DataParallel, RanksComeToTheGradientOfOne) {
  const Outcome one = train_ranks({}, 1, 4, 2), many = train_ranks({}, 4, 4, 2);
  EXPECT_NEAR(many.losses[0], one.losses[0], 1e-12 * one.losses[0]);
  EXPECT_NEAR(many.norms[0], one.norms[0], 1e-6 * one.norms[0]);
  int64_t different = 0;
  for (size_t i = 0; i < one.weights.size(); ++i)
    different += std::abs(many.weights[i] - one.weights[i]) > 1e-5 ? 1 : 0;
  EXPECT_LT(different, std::ssize(one.weights) / 100);
}

/// What a recipe sends on ranks, by their transports, in one step.
std::vector<BytesByTraffic> sent_in_a_step(TinyRunOptions options, int ranks) {
  std::vector<BytesByTraffic> sent(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](Comm& comm) {
    TinyRunOptions mine = options;
    mine.comm = &comm;
    TinyRun tiny(mine);
    const BytesByTraffic before = comm.sent();
    (void)tiny.step(0);
    sent[static_cast<size_t>(comm.rank())] = since(before, comm.sent());
  });
  return sent;
}

// Every rank sends its gradient of what others own, and what it owns and has updated to all others:
// byte for byte what `plan` says. [distributed.md §2; errata-2, 38]
TEST(DataParallel, BytesSentAreThoseOfTheModel) {
  const auto backend = make_backend("ref", Threads{1});
  for (const std::string keys :
       {"inherit = 'fp8-lm'", "inherit = 'fp32'", "inherit = 'bf16'", "inherit = 'mxfp4-sr-rht'",
        "inherit = 'kahan-bf16'", "inherit = 'gaussws-all'", "inherit = 'nipq'",
        "inherit = 'bf16'\ncommunication.weights = 'fp32'",
        "inherit = 'bf16'\ncommunication.weights = { format = 'fp8_e4m3', scale = 'pow2' }",
        "inherit = 'bf16'\ngradient.communicate = 'nvfp4'\ngradient.shard = 'tensor'",
        "inherit = 'bf16'\ngradient.communicate = 'mxfp8_e4m3'"})
    for (const int ranks : {2, 3, 4}) {
      SCOPED_TRACE(fmt::format("{} on {} ranks", keys, ranks));
      TinyRunOptions options{.recipe = "name = 'wire'\n" + keys};
      options.model.vocab = 700;
      const std::vector<BytesByTraffic> sent = sent_in_a_step(options, ranks);
      const Recipe recipe = Recipe::parse(options.recipe, "test.toml");
      const RankPlan plan(*backend, options.model, recipe, {.ranks = ranks});
      const std::vector<BytesByTraffic> planned = traffic_by_rank(
          plan.partition(), sent_tensors(plan.parameters(), recipe, options.model.layers));
      for (size_t rank = 0; rank < sent.size(); ++rank)
        for (const Traffic kind : {Traffic::gradients, Traffic::weights, Traffic::scales}) {
          const auto at = static_cast<size_t>(kind);
          EXPECT_EQ(sent[rank][at], planned[rank][at]) << rank << ' ' << name_of(kind);
        }
    }
}

// What BF16 computes with is a copy of its owner's FP32 values. Where all that reads it rounds to
// BF16 in any case, as in a Llama of recipe bf16, ranks train_ranks as they do with FP32
// everywhere.
TEST(DataParallel, CopiesInBf16AreExactWhereAllReadersRound) {
  const std::string bf16 = "name = 'copies'\ninherit = 'bf16'\n";
  Outcome copied = train_ranks({.recipe = bf16}, 3, 3);
  const Outcome whole = train_ranks({.recipe = bf16 + "communication.weights = 'fp32'"}, 3, 3);
  EXPECT_EQ(copied.losses, whole.losses);
  EXPECT_EQ(copied.norms, whole.norms);
  EXPECT_NE(copied.weights, whole.weights);
  for (float& weight : copied.weights) EXPECT_EQ(weight, round_to_bf16(weight));
}

// One rank alone reads the row of a token whose embedding is not finite.
TEST(DataParallel, ARankThatIsNotFiniteSkipsTheStepOnAll) {
  for (const Determinism mode : {Determinism::ranks, Determinism::global}) {
    run_ranks(3, [&](Comm& comm) {
      TinyRunOptions options{.determinism = mode, .comm = &comm};
      options.model.tie_embeddings = false;
      TinyRun tiny(options);
      const int64_t last = options.model.vocab - 1;
      const std::vector<float> row(static_cast<size_t>(options.model.width),
                                   std::numeric_limits<float>::infinity());
      tiny.model().write_row(tiny.run(), 0, last, row);
      const std::vector<float> before = tiny.weights();
      const BatchSpans to = tiny.trainer().train_tokens(0);
      for (size_t i = 0; i < to.inputs.size(); ++i) {
        to.inputs[i] = comm.rank() == 1 ? static_cast<int32_t>(last) : 3;
        to.targets[i] = 5;
      }
      EXPECT_TRUE(tiny.trainer().step(0, 1e-2f).skipped);
      EXPECT_EQ(tiny.weights(), before);
      EXPECT_EQ(tiny.trainer().diagnose(0).found, comm.rank() == 1) << "where it began";
    });
  }
}

}  // namespace
}  // namespace ng
