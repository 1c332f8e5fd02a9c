// Memory of ranks: one rank is one process, more share what only owners keep, by hand.
#include "plan/rank_memory.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "comm/thread_ranks.h"
#include "support/session_runs.h"
#include "support/tiny_run.h"

namespace ng {
namespace {

using Shard = GradientRecipe::Shard;

size_t of(const MemoryByKind& bytes, MemoryKind kind) { return bytes[static_cast<size_t>(kind)]; }

Recipe recipe_of(const std::string& keys) {
  return Recipe::parse("name='t'\n" + keys, "test.toml");
}

// Rows and columns of which every piece is whole lines of 64 bytes, in every format.
ModelConfig even_model() {
  ModelConfig c = tiny_llama();
  c.head_dim = 64;
  c.width = 128;
  c.heads = c.kv_heads = 2;
  c.ffn = 256;
  c.vocab = 256;
  c.tie_embeddings = false;
  return c;
}

const StepSettings kStep{.sequences = 2, .length = 12, .micros = 1, .optimizer = {}};

class RankMemoryTest : public ::testing::Test {
 protected:
  RankPlan plan(const std::string& keys, int64_t ranks, int64_t tensor = 1) {
    return {*backend_, even_model(), recipe_of(keys), {.ranks = ranks, .tensor = tensor}};
  }
  std::unique_ptr<Backend> backend_ = make_backend("ref", Threads{1});
};

TEST_F(RankMemoryTest, OfOneRankIsThatOfTheTrainer) {
  for (const char* keys :
       {"inherit='fp32'", "inherit='naive-bf16'", "inherit='residual-bf16'", "inherit='fp8-lm'",
        "inherit='adamw-fp8-states'", "inherit='coat-adamw'", "inherit='adam8bit'",
        "optimizer.moment2={format='bf16', parts=2}", "inherit='adam-mini'",
        "inherit='gaussws-all'", "inherit='mxfp4-sr-rht'\noptimizer.kind='muon'",
        "optimizer.kind='sgd'"}) {
    SCOPED_TRACE(keys);
    TinyRunOptions options{
        .model = even_model(), .recipe = std::string("name='t'\n") + keys, .backend = "ref"};
    TinyRun tiny(options);
    const MemoryPlan want = tiny.trainer().memory();
    const RankPlan plan(tiny.run().backend(), options.model, recipe_of(keys), {});
    const MemoryOfRanks got = plan.memory(tiny.trainer().settings());
    EXPECT_EQ(got.most.bytes, want.bytes);
    EXPECT_EQ(got.most.most, want.most);
    EXPECT_EQ(got.most.total(), want.total);
    EXPECT_EQ(got.least.total(), want.total);
  }
}

TEST_F(RankMemoryTest, OwnersShareMastersAndStates) {
  const std::string keys = "inherit='fp8-lm'\ncommunication.weights='fp32'";
  const RankPlan one = plan(keys, 1), four = plan(keys, 4);
  const MemoryByKind whole = one.stored_by_rank().front();
  MemoryByKind sum{};
  for (const MemoryByKind& rank : four.stored_by_rank()) {
    EXPECT_EQ(of(rank, MemoryKind::weights), of(whole, MemoryKind::weights)) << "on every rank";
    for (size_t kind = 0; kind < kMemoryKinds; ++kind) sum[kind] += rank[kind];
  }
  for (const MemoryKind kind : {MemoryKind::master, MemoryKind::moments})
    EXPECT_EQ(of(sum, kind), of(whole, kind)) << "whole tensors: nothing is cut";
}

TEST_F(RankMemoryTest, BytesByHandInFp32) {
  const RankPlan three = plan("inherit='fp32'", 3);
  const Partition& parts = three.partition(Shard::flat);
  int64_t parameters = 0;
  for (const ParameterSpec& spec : parameter_table(even_model()))
    parameters += spec.rows * spec.cols;
  for (size_t rank = 0; rank < 3; ++rank) {
    const MemoryByKind& stored = three.stored_by_rank()[rank];
    EXPECT_EQ(of(stored, MemoryKind::weights), 4 * static_cast<size_t>(parameters));
    EXPECT_EQ(of(stored, MemoryKind::moments), 8 * static_cast<size_t>(parts.loads[rank]));
    EXPECT_EQ(of(stored, MemoryKind::master), 0u);
  }
}

// What is planned of every rank is what its trainer allocates.
TEST_F(RankMemoryTest, OfSeveralRanksIsThatOfTheirTrainers) {
  for (const char* keys :
       {"inherit='fp32'", "inherit='fp8-lm'", "inherit='bf16'", "inherit='residual-bf16'",
        "inherit='gaussws-all'", "gradient.communicate='nvfp4'"})
    for (const int ranks : {2, 4, 8}) {
      SCOPED_TRACE(fmt::format("{} on {} ranks", keys, ranks));
      std::vector<MemoryPlan> plans(static_cast<size_t>(ranks));
      const TinyRunOptions options{.model = even_model(),
                                   .recipe = std::string("name='t'\n") + keys};
      StepSettings settings;
      run_ranks(ranks, [&](Comm& comm) {
        TinyRunOptions mine = options;
        mine.comm = &comm;
        TinyRun tiny(mine);
        (void)tiny.step(0);  // replays what was recorded, or fails
        plans[static_cast<size_t>(comm.rank())] = tiny.trainer().memory();
        if (comm.rank() == 0) settings = tiny.trainer().settings();
      });
      const auto cpu = make_backend("cpu", Threads{1});
      const RankPlan plan(*cpu, options.model, recipe_of(keys), {.ranks = ranks});
      const MemoryOfRanks got = plan.memory(settings);
      size_t most = 0, least = std::numeric_limits<size_t>::max();
      for (const MemoryPlan& of_rank : plans) {
        most = std::max(most, of_rank.total);
        least = std::min(least, of_rank.total);
      }
      EXPECT_EQ(got.most.total(), most);
      EXPECT_EQ(got.least.total(), least);
      EXPECT_EQ(got.most.most, plans[static_cast<size_t>(got.most.rank)].most);
    }
}

/// A whole run on one of some ranks: what was planned, what it had taken after its step.
struct SessionMemory {
  MemoryPlan plan;
  size_t allocated = 0;
};

class SessionMemoryTest : public SessionRuns {
 protected:
  /// By rank; and what RankPlan says of such runs.
  struct Planned {
    std::vector<SessionMemory> sessions;
    MemoryOfRanks plan;
  };
  [[nodiscard]] Planned planned(int ranks, const std::vector<std::string>& settings) const {
    const RunConfig run = config(settings);
    Planned result{.sessions = std::vector<SessionMemory>(static_cast<size_t>(ranks)), .plan = {}};
    run_ranks(ranks, [&](Comm& comm) {
      Listener listener;
      Session session(run, {.out = in("out"), .comm = &comm}, listener);
      listener.on_step = [&](int64_t) {  // the sample at the end takes more
        result.sessions[static_cast<size_t>(comm.rank())] = {session.trainer().memory(),
                                                             session.run().allocated_bytes()};
      };
      (void)session.train();
      if (comm.rank() > 0) return;
      const auto backend = make_backend("cpu", Threads{1});
      const RankPlan plan(*backend, session.model().config(), session.recipe(), {.ranks = ranks});
      result.plan = plan.memory(session.trainer().settings());
    });
    remove_all(in("out"));
    return result;
  }
};

// To the byte, with all that is reported beside the step, of one and of several micro-batches.
TEST_F(SessionMemoryTest, WhatIsPlannedIsWhatARunTakes) {
  for (const char* recipe : {"bf16", "fp8-lm", "mxfp4-sr-rht"})
    for (const int ranks : {1, 2, 3})
      for (const int micros : {1, 3}) {
        SCOPED_TRACE(fmt::format("{} on {} ranks, {} micro-batches", recipe, ranks, micros));
        const auto [sessions, plan] =
            planned(ranks, {fmt::format("recipe={}", recipe), "train.steps=1",
                            fmt::format("train.accumulate={}", micros)});
        for (const RankMemory& rank : {plan.least, plan.most}) {
          const auto& [want, allocated] = sessions[static_cast<size_t>(rank.rank)];
          EXPECT_EQ(rank.bytes, want.bytes);
          EXPECT_EQ(rank.most, want.most);
          EXPECT_EQ(rank.total(), allocated);
        }
        for (const SessionMemory& session : sessions) {
          EXPECT_GE(session.allocated, plan.least.total());
          EXPECT_LE(session.allocated, plan.most.total());
        }
      }
}

// States of eight ranks are an eighth, gradients exist where they are on their way or owned.
TEST_F(RankMemoryTest, FallsWithTheNumberOfRanks) {
  size_t before = std::numeric_limits<size_t>::max();
  ModelConfig model = even_model();
  model.vocab = 4096;  // which every rank has rows of
  for (const int64_t ranks : {1, 2, 4, 8}) {
    const RankPlan plan(*backend_, model, recipe_of("inherit='fp32'"), {.ranks = ranks});
    const RankMemory most = plan.memory(kStep).most;
    EXPECT_LT(most.total(), before) << ranks;
    before = most.total();
  }
}

TEST_F(RankMemoryTest, CarriesLieWithTheirOwners) {
  const RankPlan two = plan("inherit='residual-bf16'\ncommunication.weights='fp32'", 2);
  const Partition& parts = two.partition();
  size_t vectors = 0, matrices = 0;
  for (const ParameterSpec& spec : two.parameters())
    (spec.is_vector ? vectors : matrices) += static_cast<size_t>(spec.rows * spec.cols);
  size_t weights = 0;
  for (const MemoryByKind& rank : two.stored_by_rank()) weights += of(rank, MemoryKind::weights);
  EXPECT_EQ(weights, 2 * (2 * matrices + 4 * vectors) + matrices) << "one byte each, once";
  EXPECT_EQ(parts.ranks(), 2);
}

TEST_F(RankMemoryTest, TensorParallelRanksShareLayers) {
  const RankPlan two = plan("inherit='fp32'", 2, 2);
  EXPECT_EQ(two.layout().data(), 1);
  // Embedding and head 256 x 128 and gains of five norms are whole on both, of q, k, v, out 128 x
  // 128 and gate, up, down 256 x 128 of two blocks each has half.
  const size_t whole = 2 * 256 * 128 + 5 * 128;
  const size_t half = 2 * (4 * 128 * 128 + 3 * 256 * 128) / 2;
  size_t moments = 0;
  for (const MemoryByKind& rank : two.stored_by_rank()) {
    EXPECT_EQ(of(rank, MemoryKind::weights), 4 * (whole + half));
    moments += of(rank, MemoryKind::moments);
  }
  EXPECT_EQ(moments, 8 * (whole + 2 * half)) << "each value has one owner";
}

TEST_F(RankMemoryTest, TheLargestBatchFitsAndOneMoreDoesNot) {
  const RankPlan two = plan("inherit='bf16'", 2);
  StepSettings step = kStep;
  step.sequences = 37;
  const size_t bytes = two.memory(step).most.total();
  EXPECT_EQ(two.largest_batch(kStep, bytes), 37);
  EXPECT_EQ(two.largest_batch(kStep, bytes - 1), 36);
  step.sequences = 1;
  EXPECT_EQ(two.largest_batch(kStep, two.memory(step).most.total() - 1), 0);
}

// Of several micro-batches gradients lie whole on each rank, of one where they are owned.
TEST_F(RankMemoryTest, GradientsOfSeveralMicroBatchesLieWhole) {
  const RankPlan four = plan("inherit='fp32'", 4);
  StepSettings step = kStep;
  step.micros = 3;
  const RankMemory of_three = four.memory(step).most;
  size_t whole = 0;
  for (const ParameterSpec& spec : four.parameters())
    whole += 4 * static_cast<size_t>(spec.rows * spec.cols);
  EXPECT_GE(of(of_three.most, MemoryKind::gradients), whole);
  EXPECT_GT(four.largest_batch(kStep, of_three.total()), kStep.sequences) << "of one";
  EXPECT_EQ(four.largest_batch(step, of_three.total()), kStep.sequences);
  EXPECT_LT(four.largest_batch(step, of_three.total() - 1), kStep.sequences);
}

}  // namespace
}  // namespace ng
