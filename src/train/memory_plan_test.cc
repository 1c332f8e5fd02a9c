// Bytes as stored: the plan, what is allocated and the register agree with sums by hand, for every
// way in which weights and moments persist. [recipes.md §6, bytes per parameter]
#include "train/memory_plan.h"

#include <gtest/gtest.h>

#include <map>

#include "support/tiny_run.h"

namespace ng {
namespace {

constexpr size_t whole_lines(size_t bytes) { return (bytes + 63) / 64 * 64; }

/// Bytes of a tensor and of its scales.
using Bytes = std::function<size_t(int64_t rows, int64_t cols)>;
size_t values(int64_t rows, int64_t cols, size_t bits) {
  return whole_lines((static_cast<size_t>(rows * cols) * bits + 7) / 8);
}
Bytes plain(size_t bits) {
  return [bits](int64_t rows, int64_t cols) { return values(rows, cols, bits); };
}
Bytes with_one_scale(size_t bits) {
  return [bits](int64_t rows, int64_t cols) { return values(rows, cols, bits) + 64; };
}
// FP32 scales of rows in blocks of 128.
size_t fp8_blocks(int64_t rows, int64_t cols) {
  return values(rows, cols, 8) + whole_lines(static_cast<size_t>(rows * ((cols + 127) / 128)) * 4);
}

struct PlanCase {
  const char* recipe;
  std::map<std::string, Bytes> parts;  ///< of matrices of at least 4096 values
};

const char* const kFp8Lm =
    "inherit='fp8-current'\nweights={storage={format='fp8_e4m3', scale='pow2'}, master='fp16'}\n"
    "optimizer={moment1={format='fp8_e4m3', scale='pow2'},"
    " moment2={format='fp16', block='tensor', scale='pow2'}}";

std::vector<PlanCase> plan_cases() {
  const Bytes four = plain(32);
  return {
      {"inherit='bf16'", {{"weight", four}, {"moment1", four}, {"moment2", four}}},
      {"inherit='naive-bf16'", {{"weight", plain(16)}, {"moment1", four}, {"moment2", four}}},
      {"inherit='residual-bf16'",
       {{"weight", plain(16)}, {"carry", plain(8)}, {"moment1", four}, {"moment2", four}}},
      {"inherit='residual-bf16'\nweights.residual_bits=4",
       {{"weight", plain(16)}, {"carry", plain(4)}, {"moment1", four}, {"moment2", four}}},
      {"inherit='kahan-bf16'",
       {{"weight", plain(16)}, {"carry", plain(16)}, {"moment1", four}, {"moment2", four}}},
      {"inherit='adamw-fp8-states'",
       {{"weight", four}, {"moment1", fp8_blocks}, {"moment2", plain(16)}}},
      {kFp8Lm,
       {{"weight", with_one_scale(8)},
        {"master", with_one_scale(16)},
        {"moment1", with_one_scale(8)},
        {"moment2", with_one_scale(16)}}},
  };
}

// Every matrix outside of the embedding holds at least 4096 values.
ModelConfig wide_model() {
  ModelConfig c = tiny_llama();
  c.head_dim = 64;
  c.width = 128;
  c.kv_heads = 2;
  c.ffn = 160;
  c.vocab = 40;
  return c;
}

std::map<std::string, size_t> by_hand(const PlanCase& c) {
  std::map<std::string, size_t> bytes;
  const bool only_in_blocks = c.recipe == kFp8Lm;  // FP8 with scales: linear layers inside blocks
  for (const ParameterSpec& spec : parameter_table(wide_model())) {
    const bool is_outside = spec.name.starts_with("embed") || spec.name.starts_with("head");
    for (const auto& [part, of] : c.parts) {
      const bool is_state = part.starts_with("moment");
      const bool is_narrow = !spec.is_vector && (is_state || !only_in_blocks || !is_outside);
      if (is_narrow)
        bytes[part] += of(spec.rows, spec.cols);
      else if (is_state || part == "weight")
        bytes[part] += values(spec.rows, spec.cols, 32);
    }
  }
  return bytes;
}

TEST(MemoryPlan, StoredBytesAreThoseByHand) {
  for (const PlanCase& c : plan_cases()) {
    SCOPED_TRACE(c.recipe);
    TinyRunOptions options;
    options.model = wide_model();
    options.recipe = std::string("name='test'\n") + c.recipe;
    options.micros = 2;
    TinyRun tiny(options);
    const MemoryPlan plan = tiny.trainer().memory();
    const std::map<std::string, size_t> want = by_hand(c);
    ASSERT_EQ(plan.stored.size(), want.size());
    MemoryByKind kinds{};
    for (const StoredPart& part : plan.stored) {
      EXPECT_EQ(part.bytes, want.at(part.name)) << part.name;
      kinds[static_cast<size_t>(part.kind)] += part.bytes;
    }
    for (const MemoryKind kind : {MemoryKind::weights, MemoryKind::master, MemoryKind::moments})
      EXPECT_EQ(plan.bytes[static_cast<size_t>(kind)], kinds[static_cast<size_t>(kind)])
          << name_of(kind);
    EXPECT_EQ(plan.total, tiny.run().allocated_bytes());
    // All gradients wait for the update.
    size_t gradients = 0;
    for (const ParameterSpec& spec : parameter_table(wide_model()))
      gradients += values(spec.rows, spec.cols, 32);
    EXPECT_EQ(plan.most[static_cast<size_t>(MemoryKind::gradients)], gradients);
  }
}

TEST(MemoryPlan, OfDryRunsIsThatOfRuns) {
  for (const PlanCase& c : plan_cases()) {
    SCOPED_TRACE(c.recipe);
    TinyRunOptions options;
    options.model = wide_model();
    options.recipe = std::string("name='test'\n") + c.recipe;
    TinyRun tiny(options);
    const MemoryPlan want = tiny.trainer().memory();
    const MemoryPlan got =
        plan_memory(tiny.run().backend(), options.model, Recipe::parse(options.recipe, "test.toml"),
                    options.recompute, tiny.trainer().settings());
    EXPECT_EQ(got.total, want.total);
    EXPECT_EQ(got.bytes, want.bytes);
    EXPECT_EQ(got.most, want.most);
  }
}

// The table of recipes.md §6, of a model of which nearly everything is a matrix.
TEST(MemoryPlan, BytesPerParameterAreThoseOfTheTable) {
  const auto backend = make_backend("ref", Threads{1});
  const ModelConfig model = model_preset("gpt2-124m");
  const auto plan = [&](const std::string& recipe) {
    return plan_memory(*backend, model, Recipe::parse("name='t'\n" + recipe, "test.toml"),
                       RecomputePolicy::none, {.sequences = 1, .length = 64, .optimizer = {}});
  };
  double parameters = 0;
  for (const ParameterSpec& spec : parameter_table(model))
    parameters += static_cast<double>(spec.rows * spec.cols);
  struct Row {
    const char* recipe;
    double weights_and_master, gradient, moments;
  };
  for (const Row& row :
       {Row{"inherit='fp32'", 4, 4, 8}, Row{"inherit='bf16'", 4, 4, 8},
        Row{"inherit='naive-bf16'", 2, 4, 8}, Row{"inherit='kahan-bf16'", 4, 4, 8},
        Row{"inherit='residual-bf16'", 3, 4, 8}, Row{"inherit='adamw-fp8-states'", 4, 4, 3.03}}) {
    const MemoryPlan p = plan(row.recipe);
    const auto per_parameter = [&](MemoryKind kind) {
      return static_cast<double>(p.most[static_cast<size_t>(kind)]) / parameters;
    };
    EXPECT_NEAR(per_parameter(MemoryKind::weights) + per_parameter(MemoryKind::master),
                row.weights_and_master, 0.01)
        << row.recipe;
    EXPECT_NEAR(per_parameter(MemoryKind::gradients), row.gradient, 0.01) << row.recipe;
    EXPECT_NEAR(per_parameter(MemoryKind::moments), row.moments, 0.01) << row.recipe;
  }
}

// Micro-batches between the first and the last do the same in the same places: what more of them
// take are their tokens, and a plan does not go through them.
TEST(MemoryPlan, OfAMillionMicroBatchesIsThatOfThreeAndTheirTokens) {
  const auto backend = make_backend("cpu", Threads{1});
  for (const char* recipe : {"fp32", "mxfp4-sr-rht", "gaussws-all", "fp8-lm"}) {
    const auto plan = [&](int64_t micros, int ranks) {
      return plan_memory(
          *backend, tiny_llama(), Recipe::parse(fmt::format("name='t'\ninherit='{}'", recipe), "t"),
          RecomputePolicy::none, {.sequences = 3, .length = 11, .micros = micros, .optimizer = {}},
          ranks - 1, ranks);
    };
    for (const int ranks : {1, 2}) {
      SCOPED_TRACE(fmt::format("{} on {} ranks", recipe, ranks));
      const MemoryPlan few = plan(3, ranks);
      for (const int64_t micros : {4, (1 << 20) + 1}) {
        MemoryPlan many = plan(micros, ranks);
        // Inputs, targets and masks, of one batch more: evaluation has its own.
        const auto tokens = [](int64_t batches) {
          return 3 * persistent_bytes(static_cast<size_t>(batches + 1) * 33 * sizeof(float));
        };
        const size_t more = tokens(micros) - tokens(3);
        EXPECT_EQ(many.total - few.total, more);
        many.bytes[static_cast<size_t>(MemoryKind::state)] -= more;
        EXPECT_EQ(many.bytes, few.bytes);
        EXPECT_EQ(many.gaps, few.gaps);
      }
    }
  }
}

// Nor where their sums depend on no number of ranks: what more of them take are the levels of the
// tree of sums.
TEST(MemoryPlan, OfAMillionMicroBatchesIsMadeAtOnceForGlobalSums) {
  const auto backend = make_backend("cpu", Threads{1});
  const Recipe recipe = Recipe::parse("name='t'", "t");
  size_t parameters = 0;
  for (const ParameterSpec& spec : planned_parameters(*backend, tiny_llama(), recipe))
    parameters += values(spec.rows, spec.cols, 32);
  for (const int ranks : {1, 2}) {
    const auto gradients = [&](int64_t micros) {
      const MemoryPlan plan = plan_memory(*backend, tiny_llama(), recipe, RecomputePolicy::none,
                                          {.sequences = 3,
                                           .length = 11,
                                           .micros = micros,
                                           .optimizer = {},
                                           .determinism = Determinism::global},
                                          0, ranks);
      return plan.most[static_cast<size_t>(MemoryKind::gradients)];
    };
    const size_t seven = gradients(70);
    EXPECT_LE(gradients(1 << 20), seven + 14 * parameters);
    if (ranks > 1) continue;  // where others' sums are on the way, too
    EXPECT_EQ(gradients(127), seven);
    EXPECT_EQ(gradients(128), seven + parameters) << "eight sums at once";
    EXPECT_EQ(gradients(1 << 20), seven + 14 * parameters);
  }
}

}  // namespace
}  // namespace ng
