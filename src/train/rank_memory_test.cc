// Memory of ranks: one rank is one process, more share what only owners keep, by hand.
#include "train/rank_memory.h"

#include <gtest/gtest.h>

#include <numeric>

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
        "inherit='adamw-fp8-states'", "inherit='adam-mini'", "inherit='gaussws-all'",
        "inherit='mxfp4-sr-rht'\noptimizer.kind='muon'", "optimizer.kind='sgd'"}) {
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
  const RankPlan one = plan("inherit='fp8-lm'", 1), four = plan("inherit='fp8-lm'", 4);
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
  const MemoryOfRanks memory = three.memory(kStep);
  const RankMemory one = plan("inherit='fp32'", 1).memory(kStep).most;
  for (const RankMemory* rank : {&memory.least, &memory.most}) {
    const auto load = static_cast<size_t>(parts.loads[static_cast<size_t>(rank->rank)]);
    EXPECT_EQ(of(rank->bytes, MemoryKind::gradients),
              of(one.bytes, MemoryKind::gradients) + 4 * load)
        << "the sums of what it owns";
    EXPECT_EQ(of(rank->bytes, MemoryKind::activations), of(one.bytes, MemoryKind::activations));
  }
  EXPECT_EQ(parts.loads[static_cast<size_t>(memory.most.rank)],
            *std::max_element(parts.loads.begin(), parts.loads.end()));
  EXPECT_EQ(parts.loads[static_cast<size_t>(memory.least.rank)],
            *std::min_element(parts.loads.begin(), parts.loads.end()));
}

TEST_F(RankMemoryTest, CarriesLieWithTheirOwners) {
  const RankPlan two = plan("inherit='residual-bf16'", 2);
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

}  // namespace
}  // namespace ng
