// Training adapters: what moves, what persists, what memory and ranks have of it.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "comm/thread_ranks.h"
#include "model/adapters.h"
#include "support/tiny_run.h"

namespace ng {
namespace {

TinyRunOptions lora_options(const std::string& recipe, ModelConfig model = tiny_llama()) {
  model.lora = {.rank = 3, .alpha = 6, .targets = {"attn.*", "mlp.down"}};
  return {.model = model, .recipe = "name = 't'\n" + recipe};
}

std::vector<float> values_of(TinyRun& tiny, bool adapters) {
  std::vector<float> all;
  for (const Parameter& p : tiny.model().parameters()) {
    if (p.spec.is_adapter != adapters) continue;
    const std::vector<float> values = download(tiny.run().backend(), p.value());
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST(Lora, FirstValuesAreDrawnForAAndZeroForB) {
  TinyRun tiny(lora_options(""));
  int64_t seen = 0;
  for (const Parameter& p : tiny.model().parameters()) {
    if (!p.spec.is_adapter) continue;
    const std::vector<float> values = download(tiny.run().backend(), p.value());
    const bool is_a = p.spec.name.ends_with("lora_a");
    const double bound = is_a ? 1 / std::sqrt(static_cast<double>(p.spec.cols)) : 0;
    double squares = 0;
    for (const float v : values) {
      ASSERT_LE(std::fabs(v), bound) << p.spec.name;
      squares += double{v} * v;
    }
    ++seen;
    // Variance of a uniform draw is bound²/3, of its square 4/45 bound⁴: within 6 deviations.
    const auto n = static_cast<double>(values.size());
    EXPECT_NEAR(squares / n, bound * bound / 3, 6 * bound * bound * std::sqrt(4.0 / 45 / n))
        << p.spec.name;
  }
  EXPECT_EQ(seen, 2 * 2 * 5) << "two blocks: q, k, v, out, down";
}

TEST(Lora, AtFirstTheModelIsItsBase) {
  TinyRunOptions options = lora_options("");
  TinyRun adapted(options);
  options.model.lora = {};
  TinyRun base(options);
  EXPECT_EQ(values_of(adapted, false), base.weights());
  EXPECT_EQ(adapted.step(0).loss, base.step(0).loss);
}

TEST(Lora, OnlyAdaptersMoveAndOnlyTheyAreSaved) {
  for (const char* recipe : {"inherit='fp32'", "inherit='bf16'", "inherit='mxfp4-sr-rht'",
                             "inherit='fp8-lm'", "inherit='fp8-delayed'"}) {
    for (const ModelConfig& model : {tiny_llama(), tiny_gpt2()}) {
      SCOPED_TRACE(recipe);
      TinyRun tiny(lora_options(recipe, model));
      const std::vector<float> base = values_of(tiny, false), before = values_of(tiny, true);
      double first = 0, last = 0;
      for (int64_t step = 0; step < 6; ++step) {
        tiny.fill(0);  // the same tokens: they are learned
        const StepReport report = tiny.trainer().step(step, 1e-2f);
        ASSERT_FALSE(report.skipped);
        (step == 0 ? first : last) = report.loss;
      }
      EXPECT_LT(last, first);
      EXPECT_EQ(values_of(tiny, false), base);
      EXPECT_NE(values_of(tiny, true), before);
      for (const Persistent& row : tiny.run().persistents()) {
        const std::string& name = row.spec.name;
        const bool is_adapter = name.find(".lora_") != std::string::npos;
        const bool is_weight = name.starts_with("weight.");
        const bool is_state = name.starts_with("master.") || name.starts_with("moment");
        if (is_weight || is_state) {
          EXPECT_EQ(row.spec.is_saved, is_adapter) << name;
        }
        EXPECT_FALSE(is_state && !is_adapter) << name;
        EXPECT_FALSE(name.starts_with("gradient_scale.")) << name;
      }
    }
  }
}

TEST(Lora, TheBaseTakesTheBytesOfItsStorageAlone) {
  TinyRunOptions options = lora_options("inherit='fp8-lm'");
  options.model.width = 64;
  TinyRun adapted(options);
  options.model.lora = {};
  TinyRun whole(options);
  const auto bytes = [](const MemoryPlan& plan, MemoryKind kind) {
    return plan.most[static_cast<size_t>(kind)];
  };
  const MemoryPlan with = adapted.trainer().memory(), without = whole.trainer().memory();
  size_t adapters = 0;  // with what fills rows up
  for (const Persistent& row : adapted.run().persistents())
    if (row.spec.name.starts_with("weight.") && row.spec.is_saved) adapters += row.memory.size();
  EXPECT_EQ(bytes(with, MemoryKind::weights), bytes(without, MemoryKind::weights) + adapters);
  EXPECT_EQ(bytes(with, MemoryKind::master), 0u);
  EXPECT_EQ(bytes(with, MemoryKind::moments), 2 * adapters);
  EXPECT_LE(bytes(with, MemoryKind::gradients), adapters + 64 * sizeof(float))
      << "and what a norm's frozen gain would have";
}

TEST(Lora, RecomputationAndMicroBatchesKeepBits) {
  for (const char* recipe : {"inherit='fp32'", "inherit='mxfp4-sr-rht'"}) {
    TinyRunOptions options = lora_options(recipe);
    options.micros = 2;
    TinyRun one(options);
    options.recompute = RecomputePolicy::block;
    options.threads = 2;
    TinyRun again(options);
    for (int64_t step = 0; step < 3; ++step)
      EXPECT_EQ(one.step(step).loss, again.step(step).loss) << recipe;
    EXPECT_EQ(values_of(one, true), values_of(again, true)) << recipe;
  }
}

TEST(Lora, RanksThatShareTheBatchEndInTheBitsOfOne) {
  for (const char* recipe : {"inherit='bf16'", "inherit='mxfp4-sr-rht'"}) {
    TinyRunOptions options = lora_options(recipe);
    options.determinism = Determinism::global;
    options.micros = 4;
    TinyRun one(options);
    for (int64_t step = 0; step < 3; ++step) (void)one.step(step);
    const std::vector<float> want = values_of(one, true);
    for (const int ranks : {2, 4})
      run_ranks(ranks, [&](Comm& comm) {
        TinyRunOptions mine = options;
        mine.comm = &comm;
        mine.micros = 4 / ranks;
        TinyRun tiny(mine);
        for (int64_t step = 0; step < 3; ++step) (void)tiny.step(step);
        EXPECT_EQ(values_of(tiny, true), want) << ranks << " ranks, rank " << comm.rank();
        EXPECT_FALSE(tiny.model().is_part());
      });
  }
}

TEST(Lora, PatternsMeanPartsOrWholeNames) {
  const Lora lora{.rank = 1, .targets = {"attn.q", "blocks.1.mlp.*"}};
  EXPECT_TRUE(lora.means("blocks.0.attn.q"));
  EXPECT_TRUE(lora.means("blocks.1.mlp.down"));
  EXPECT_FALSE(lora.means("blocks.0.mlp.down"));
  EXPECT_FALSE(lora.means("head"));
  ModelConfig model = tiny_llama();
  model.lora = lora;
  const auto place = [](const std::string&) { return std::string("r"); };
  EXPECT_NO_THROW(validate_lora(model, place));
  model.lora.targets = {"attn.q", "attn.qkv"};
  try {
    validate_lora(model, place);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "r: lora.targets: \"attn.qkv\" means no linear layer of the model: "
              "\"blocks.*.attn.q\", which means 2 layers of this model");
  }
}

}  // namespace
}  // namespace ng
