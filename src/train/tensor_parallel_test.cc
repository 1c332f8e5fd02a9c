// Ranks that divide every layer train as one rank does, but for the order of sums; bytes are those
// of the model of traffic.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "comm/thread_ranks.h"
#include "model/architecture.h"
#include "plan/rank_traffic.h"
#include "support/tiny_run.h"

namespace ng {
namespace {

/// Sizes that blocks of 32 divide on four ranks.
ModelConfig model_of(Architecture architecture) {
  ModelConfig c;
  c.architecture = architecture;
  c.vocab = 37;
  c.layers = 2;
  c.heads = 8;
  c.kv_heads = architecture == Architecture::gpt2 ? 8 : 4;
  c.head_dim = 32;
  c.width = architecture == Architecture::gpt2 ? 256 : 32;
  c.ffn = 256;
  c.context = 16;
  const bool gpt2 = architecture == Architecture::gpt2;
  c.attention_bias = parts_of(architecture).attention_bias.value_or(gpt2);
  c.mlp_bias = c.norm_bias = gpt2;
  if (architecture == Architecture::mistral) c.windows.size = 5;
  return c;
}

TinyRunOptions options_of(const std::string& recipe, Architecture architecture) {
  return {.model = model_of(architecture),
          .recipe = "name = 't'\n" + recipe,
          .clip = 0,
          .sequences = 4,
          .length = 16};
}

struct ParallelLayout {
  int ranks = 1, tensor = 1;
};

/// What ranks have after some steps; whole parameters, by index.
struct ParallelOutcome {
  std::vector<double> losses, norms;
  std::vector<std::vector<float>> before, after;
  BytesByTraffic sent{};  ///< in the last step, by all
};

using Values = std::vector<std::vector<float>>;

/// Puts what a rank has of every parameter into the whole ones.
void put_parts(TinyRun& tiny, Values& whole) {
  whole.resize(tiny.model().parameters().size());
  size_t index = 0;
  for (const Parameter& p : tiny.model().parameters()) {
    const ParameterSpec& spec = p.spec;
    const int64_t cols = spec.cut.whole_cols(spec.cols);
    std::vector<float>& to = whole[index++];
    to.resize(static_cast<size_t>(spec.cut.whole_rows(spec.rows) * cols));
    const std::vector<float> part = download(tiny.run().backend(), p.value());
    for (const CutPiece& at : pieces_of(spec.cut, spec.rows, spec.cols))
      for (int64_t r = 0; r < at.rows; ++r)
        std::copy_n(part.begin() + (at.row + r) * spec.cols + at.col, at.cols,
                    to.begin() + (at.whole_row + r) * cols + at.whole_col);
  }
}

/// Moves every parameter of the blocks by its own share of at most `by`, signs and sizes by
/// `draws`.
void perturb(TinyRun& tiny, float by, uint32_t draws) {
  for (size_t index = 0; index < tiny.model().parameters().size(); ++index) {
    const Parameter& p = tiny.model().parameters()[index];
    if (!p.spec.name.starts_with("blocks.")) continue;
    std::vector<float> values = download(tiny.run().backend(), p.value());
    for (size_t i = 0; i < values.size(); ++i) {
      const uint32_t word = draw({.seed = draws, .tensor = p.id}, i)[0];
      values[i] *= 1 + by * (static_cast<float>(word) * 0x1p-31f - 1.0f);
    }
    const auto cols = static_cast<size_t>(p.spec.cols);
    for (int64_t r = 0; r < p.spec.rows; ++r)
      tiny.model().write_row(tiny.run(), index, r,
                             std::span(values).subspan(static_cast<size_t>(r) * cols, cols));
  }
}

ParallelOutcome train(const TinyRunOptions& options, const ParallelLayout& layout, int64_t steps,
                      const std::function<void(TinyRun&)>& change = {}) {
  ParallelOutcome first;
  std::mutex mutex;
  run_ranks(layout.ranks, [&](Comm& comm) {
    TinyRunOptions mine = options;
    mine.comm = &comm;
    mine.tensor = layout.tensor;
    mine.micros = options.micros * layout.tensor / layout.ranks;
    TinyRun tiny(mine);
    if (change) change(tiny);
    ParallelOutcome own;
    {
      const std::lock_guard lock(mutex);
      put_parts(tiny, first.before);
    }
    for (int64_t step = 0; step < steps; ++step) {
      tiny.fill(step);
      const StepReport report = tiny.trainer().step(step, 1.0f);
      EXPECT_FALSE(report.skipped) << step;
      own.losses.push_back(report.loss);
      own.norms.push_back(report.grad_norm);
      own.sent = report.sent;
    }
    const std::lock_guard lock(mutex);
    put_parts(tiny, first.after);
    if (first.losses.empty()) {
      first.losses = own.losses;
      first.norms = own.norms;
      first.sent = own.sent;
    }
    EXPECT_EQ(own.losses, first.losses) << comm.rank();
    EXPECT_EQ(own.norms, first.norms) << comm.rank();
  });
  return first;
}

double norm_of(const std::vector<float>& x, const std::vector<float>& y) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += (double{x[i]} - y[i]) * (double{x[i]} - y[i]);
  return std::sqrt(sum);
}

/// By how much two runs of one step differ: of the loss and, as a norm, of every gradient. The step
/// is SGD's with rate 1, so that the weights moved by their gradients.
struct Difference {
  double loss = 0;
  std::vector<double> gradients;
};
Difference difference(const ParallelOutcome& a, const ParallelOutcome& b) {
  Difference d{.loss = std::fabs(a.losses[0] - b.losses[0]), .gradients = {}};
  for (size_t i = 0; i < a.before.size(); ++i) {
    std::vector<float> moved_a, moved_b;
    for (size_t k = 0; k < a.before[i].size(); ++k) {
      moved_a.push_back(a.after[i][k] - a.before[i][k]);
      moved_b.push_back(b.after[i][k] - b.before[i][k]);
    }
    d.gradients.push_back(norm_of(moved_a, moved_b));
  }
  return d;
}

/// A sum of K products in another order is, by Higham's backward error analysis, the sum of
/// products whose weights are each off by a share of at most 2·(K + T)·2^-24. What weights that are
/// off by so much change is what the order of sums may: the largest of some draws.
Difference allowed(const TinyRunOptions& options, const ParallelOutcome& one, float share) {
  Difference most{.loss = 0, .gradients = std::vector<double>(one.before.size())};
  for (uint32_t draws = 1; draws <= 6; ++draws) {
    const Difference d =
        difference(one, train(options, {}, 1, [&](TinyRun& tiny) { perturb(tiny, share, draws); }));
    most.loss = std::max(most.loss, d.loss);
    for (size_t i = 0; i < d.gradients.size(); ++i)
      most.gradients[i] = std::max(most.gradients[i], d.gradients[i]);
  }
  return most;
}

constexpr const char* kPlainFp32 =
    "communication={activations='fp32', sums='fp32'}\noptimizer.kind='sgd'\n";

void expect_within(const ParallelOutcome& many, const ParallelOutcome& one,
                   const Difference& most) {
  const Difference d = difference(many, one);
  EXPECT_LE(d.loss, most.loss);
  for (size_t i = 0; i < d.gradients.size(); ++i) {
    double squares = 0;  // new weights are rounded
    for (const float x : one.after[i]) squares += double{x} * x;
    EXPECT_LE(d.gradients[i], most.gradients[i] + 0x1p-23 * std::sqrt(squares)) << i;
  }
}

TEST(TensorParallel, LossAndGradientsAreThoseOfOneRankButForTheOrderOfSums) {
  for (const Architecture architecture :
       {Architecture::gpt2, Architecture::llama, Architecture::mistral, Architecture::qwen2,
        Architecture::qwen3}) {
    SCOPED_TRACE(parts_of(architecture).name);
    TinyRunOptions options = options_of(kPlainFp32, architecture);
    options.micros = 2;
    const ParallelOutcome one = train(options, {}, 1);
    const Difference most = allowed(options, one, 2 * (256 + 4) * 0x1p-24f);
    for (const ParallelLayout& layout :
         {ParallelLayout{2, 2}, ParallelLayout{4, 4}, ParallelLayout{4, 2}}) {
      SCOPED_TRACE(fmt::format("{} of {}", layout.tensor, layout.ranks));
      const ParallelOutcome many = train(options, layout, 1);
      EXPECT_EQ(many.before, one.before) << "first weights are drawn by their place in the whole";
      expect_within(many, one, most);
    }
  }
}

struct RecipeCase {
  const char* recipe;
  Architecture architecture;
};
constexpr const char* kSmallTransforms = "\nlinear.dgrad.hadamard=32\nlinear.wgrad.hadamard=32";

/// How far the loss of one rank moves where parameters are off by a share: the largest of some
/// draws.
double allowed_loss(const TinyRunOptions& options, const ParallelOutcome& one, float share) {
  double most = 0;
  for (uint32_t draws = 1; draws <= 6; ++draws) {
    const ParallelOutcome moved =
        train(options, {}, 1, [&](TinyRun& tiny) { perturb(tiny, share, draws); });
    most = std::max(most, std::fabs(moved.losses[0] - one.losses[0]));
  }
  return most;
}

void expect_loss_of_one_rank(const TinyRunOptions& options, float share) {
  const ParallelOutcome one = train(options, {}, 1);
  const double most = allowed_loss(options, one, share);
  for (const ParallelLayout& layout : {ParallelLayout{2, 2}, ParallelLayout{4, 4}}) {
    SCOPED_TRACE(fmt::format("{} {} of {}", options.recipe, layout.tensor, layout.ranks));
    const ParallelOutcome many = train(options, layout, 1);
    EXPECT_EQ(many.before, one.before) << "stored weights have the scale of the whole";
    EXPECT_LE(std::fabs(many.losses[0] - one.losses[0]), most);
  }
}

// Operands in few bits have the codes and scales of the whole: nothing is left but the order of
// FP32's sums.
TEST(TensorParallel, NarrowOperandsAreThoseOfOneRank) {
  const std::string in_fp32 =
      "\ncompute='fp32'\ncommunication={activations='fp32', weights='fp32', sums='fp32'}";
  for (const RecipeCase& c : {RecipeCase{"inherit='fp8-lm'", Architecture::gpt2},
                              RecipeCase{"inherit='fp8-lm'", Architecture::llama},
                              RecipeCase{"inherit='fp8-current'", Architecture::gpt2},
                              RecipeCase{"inherit='mxfp8'", Architecture::llama},
                              RecipeCase{"inherit='mxfp4-all'", Architecture::llama},
                              RecipeCase{"inherit='nvfp4-no-sr'", Architecture::gpt2},
                              RecipeCase{"inherit='nvfp4'", Architecture::llama}}) {
    std::string recipe = c.recipe + in_fp32;
    if (recipe.find("mxfp4-all") != std::string::npos) recipe += kSmallTransforms;
    expect_loss_of_one_rank(options_of(recipe, c.architecture), 2 * (256 + 4) * 0x1p-24f);
  }
}

// With sums of parts in BF16 a part is off by 2^-8 of itself at most, and so is what is gathered
// after it: as much as parameters that are off by 2^-7, those that are stored wide enough for it.
TEST(TensorParallel, RecipesTrainAsOneRankButForSumsInBf16) {
  for (const RecipeCase& c : {RecipeCase{"inherit='bf16'", Architecture::gpt2},
                              RecipeCase{"inherit='fp8-current'", Architecture::gpt2},
                              RecipeCase{"inherit='fp8-lm'", Architecture::gpt2},
                              RecipeCase{"inherit='fp8-lm'", Architecture::llama},
                              RecipeCase{"inherit='mxfp8'", Architecture::llama},
                              RecipeCase{"inherit='mxfp4-nr'", Architecture::gpt2},
                              RecipeCase{"inherit='mxfp4-sr-rht'", Architecture::llama}}) {
    std::string recipe = c.recipe + std::string("\ncommunication.weights='fp32'");
    if (recipe.find("rht") != std::string::npos) recipe += kSmallTransforms;
    expect_loss_of_one_rank(options_of(recipe, c.architecture), 0x1p-7f);
  }
}

TEST(TensorParallel, RanksRepeatTheirBits) {
  for (const char* recipe : {"inherit='fp8-lm'",
                             "inherit='mxfp4-sr-rht'\n"
                             "linear.dgrad.hadamard=32\n"
                             "linear.wgrad.hadamard=32",
                             "inherit='fp8-delayed'"}) {
    TinyRunOptions options = options_of(recipe, Architecture::llama);
    options.micros = 2;
    const ParallelOutcome once = train(options, {4, 2}, 3), again = train(options, {4, 2}, 3);
    EXPECT_EQ(once.losses, again.losses) << recipe;
    EXPECT_TRUE(once.after == again.after) << recipe;
  }
}

TEST(TensorParallel, RecomputedBlocksHaveTheSameBits) {
  TinyRunOptions options = options_of(
      "inherit='fp8-lm'\nsaved={norm='fp8_e4m3', activation='fp8_e4m3', attention='fp8_e4m3'}",
      Architecture::llama);
  const ParallelOutcome kept = train(options, {2, 2}, 2);
  options.recompute = RecomputePolicy::block;
  EXPECT_TRUE(train(options, {2, 2}, 2).after == kept.after);
}

TEST(TensorParallel, ShareOfSkippedStepsIsThatOfAllRanks) {
  TinyRunOptions options = options_of("inherit='fp8-lm'", Architecture::gpt2);
  run_ranks(4, [&](Comm& comm) {
    TinyRunOptions mine = options;
    mine.comm = &comm;
    mine.tensor = 2;
    TinyRun tiny(mine);
    if (comm.rank() == 3) {  // its part of one bias alone
      Parameter& bias = tiny.model().parameters()[5];
      ASSERT_TRUE(bias.spec.is_vector && bias.spec.cut) << bias.spec.name;
      std::vector<float> bad(static_cast<size_t>(bias.spec.cols), INFINITY);
      upload_row(tiny.run().backend(), bias.value(), 0, bad);
    }
    EXPECT_TRUE(tiny.step(0).skipped) << comm.rank();
  });
}

TEST(TensorParallel, BytesAreThoseOfTheModelOfTraffic) {
  const auto backend = make_backend("ref", Threads{1});
  for (const auto& [wire, sums] : {std::pair{"fp32", "fp32"},
                                   {"bf16", "bf16"},
                                   {"fp8_e4m3", "bf16"},
                                   {"mxfp8_e4m3", "fp8_e4m3"},
                                   {"fp8_e4m3", "mxfp8_e4m3"}})
    for (const ParallelLayout& layout :
         {ParallelLayout{2, 2}, ParallelLayout{4, 4}, ParallelLayout{4, 2}}) {
      SCOPED_TRACE(fmt::format("{}: {} of {}", wire, layout.tensor, layout.ranks));
      TinyRunOptions options = options_of(
          fmt::format("communication = {{ activations='{}', sums='{}', weights='fp32' }}\n", wire,
                      sums),
          Architecture::gpt2);
      options.micros = 2;
      const StepSettings settings{.sequences = 4,
                                  .length = 16,
                                  .micros = 2 * layout.tensor / layout.ranks,
                                  .optimizer = {}};
      const ParallelOutcome many = train(options, layout, 1);
      const RankPlan plan(*backend, options.model, Recipe::parse(options.recipe, "test.toml"),
                          {.ranks = layout.ranks, .tensor = layout.tensor});
      const StepTraffic traffic = step_traffic(plan, settings);
      const auto sent = [&](Traffic kind) { return many.sent[static_cast<size_t>(kind)]; };
      const auto ranks = static_cast<uint64_t>(layout.ranks);
      EXPECT_EQ(sent(Traffic::activations), ranks * traffic.activations.elements);
      EXPECT_EQ(sent(Traffic::scales), ranks * traffic.activations.scales);
      EXPECT_EQ(static_cast<double>(sent(Traffic::gradients)),
                traffic.mean.payload.gradients * layout.ranks);
      EXPECT_EQ(static_cast<double>(sent(Traffic::weights)),
                traffic.mean.payload.weights * layout.ranks);
      EXPECT_GE(sent(Traffic::control), ranks * traffic.activations.control);
      // As a run says it of itself.
      for (const RecomputePolicy recompute : {RecomputePolicy::none, RecomputePolicy::block}) {
        RunTraffic planned;
        options.recompute = recompute;
        const ParallelOutcome again = train(options, layout, 1, [&](TinyRun& tiny) {
          if (tiny.run().ranks().world().rank() != 0) return;
          planned = run_traffic(
              tiny.model(), Recipe::parse(options.recipe, "test.toml"), WeightGather::as_sent,
              {.ranks = layout.ranks, .tensor = layout.tensor}, settings, recompute);
        });
        for (const Traffic kind :
             {Traffic::activations, Traffic::scales, Traffic::gradients, Traffic::weights})
          EXPECT_EQ(again.sent[static_cast<size_t>(kind)], planned.sent[static_cast<size_t>(kind)])
              << name_of(kind);
      }
    }
}

}  // namespace
}  // namespace ng
