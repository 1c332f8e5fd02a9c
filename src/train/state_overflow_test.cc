// A state that would not hold its new values: the step is skipped, nothing of any parameter
// changes, and the state is named.
#include <gtest/gtest.h>

#include "support/tiny_run.h"

namespace ng {
namespace {

constexpr const char* kHuge = "blocks.1.mlp.up.weight";

TinyRunOptions overflow_options(const std::string& recipe, const char* backend) {
  TinyRunOptions options;
  options.model.head_dim = 32;
  options.model.width = 64;  // moments of the MLP are stored narrow
  options.model.ffn = 96;
  options.recipe = "name='test'\n" + recipe;
  options.backend = backend;
  options.clip = 0;
  return options;
}

/// A gradient of one parameter that is `value` everywhere, as training never has it.
void set_gradient(TinyRun& tiny, float value) {
  tiny.trainer().set_gradient_observer([&tiny, value] {
    for (Parameter& parameter : tiny.model().parameters())
      if (parameter.spec.name == kHuge)
        tiny.run().execute(Fill{.x = parameter.grad, .value = value});
  });
}

std::vector<std::byte> bytes_of_state(TinyRun& tiny) {
  std::vector<std::byte> all;
  for (const Persistent& row : tiny.run().persistents()) {
    if (!row.spec.is_saved) continue;
    std::vector<std::byte> bytes(row.view.bytes());
    tiny.run().backend().download(bytes.data(), row.view.data, bytes.size());
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

class StateOverflow : public ::testing::TestWithParam<const char*> {};

TEST_P(StateOverflow, IsFoundBeforeAnythingIsStored) {
  struct StateCase {
    const char* recipe;
    float gradient;
    const char *state, *format;
  };
  const StateCase cases[] = {
      // 0.05 · 1200² is above 65504, 0.1 · 1200 is not.
      {"optimizer={moment1='fp16', moment2='fp16'}", 1200, "moment2.", "fp16"},
      {"optimizer.moment1={format='fp16'}\noptimizer.moment2='bf16'", 7e5f, "moment1.", "fp16"},
      {"inherit='naive-bf16'", 1e20f, "moment2.", "fp32"},
      {"name='test'", 1e20f, "moment2.", "fp32"},
      {"optimizer={kind='sgd', moment1='fp16'}", 7e4f, "momentum.", "fp16"},
  };
  for (const StateCase& c : cases) {
    SCOPED_TRACE(c.recipe);
    TinyRunOptions options = overflow_options(c.recipe, GetParam());
    if (std::string(c.recipe) == "name='test'") options.recipe = c.recipe;
    TinyRun tiny(options);
    EXPECT_FALSE(tiny.step(0).skipped);
    const std::vector<std::byte> before = bytes_of_state(tiny);
    set_gradient(tiny, c.gradient);
    const StepReport report = tiny.step(1);
    EXPECT_TRUE(report.skipped);
    EXPECT_EQ(report.overflowing, std::string(c.state) + kHuge);
    EXPECT_EQ(report.format, c.format);
    EXPECT_EQ(bytes_of_state(tiny), before);
    tiny.trainer().set_gradient_observer({});
    const StepReport after = tiny.step(2);
    EXPECT_FALSE(after.skipped);
    EXPECT_EQ(after.overflowing, "");
  }
}

// Gradients beyond what the norm alone shows to be harmless, but of values that fit.
TEST_P(StateOverflow, IsNotSeenWhereValuesFit) {
  struct StateCase {
    const char* recipe;
    float gradient;
  };
  const StateCase cases[] = {
      {"optimizer={moment1='fp16', moment2='fp16'}", 600},  // 0.05 · 600² = 18000
      {"optimizer={moment1={format='fp16', block='tensor', scale='pow2'},"
       " moment2={format='fp16', block='tensor', scale='pow2'}}",
       1e5f},
      {"optimizer={moment1={format='fp8_e4m3', block=[1,128]}, moment2='bf16'}", 1e8f},
  };
  for (const StateCase& c : cases) {
    SCOPED_TRACE(c.recipe);
    TinyRun tiny(overflow_options(c.recipe, GetParam()));
    set_gradient(tiny, c.gradient);
    for (int step = 0; step < 2; ++step) EXPECT_FALSE(tiny.step(step).skipped);
  }
}

// Clipping comes before.
TEST_P(StateOverflow, IsNotSeenOfClippedGradients) {
  TinyRunOptions options =
      overflow_options("optimizer={moment1='fp16', moment2='fp16'}", GetParam());
  options.clip = 1;
  TinyRun tiny(options);
  set_gradient(tiny, 1e6f);
  EXPECT_FALSE(tiny.step(0).skipped);
}

// What is stored cannot be inf, so an infinite step of the weight itself must be seen.
TEST_P(StateOverflow, OfAWeightIsItsInfinity) {
  for (const char* recipe : {"inherit='naive-bf16'\noptimizer.kind='sgd'",
                             "inherit='naive-fp8'\noptimizer.kind='sgd'"}) {
    SCOPED_TRACE(recipe);
    TinyRun tiny(overflow_options(recipe, GetParam()));
    tiny.trainer().set_gradient_observer([&tiny] {
      for (Parameter& parameter : tiny.model().parameters())
        if (parameter.spec.name == kHuge)
          tiny.run().execute(Fill{.x = parameter.grad, .value = 3e37f});
    });
    for (const BatchSpans to = tiny.trainer().train_tokens(0); int32_t & id : to.inputs) id = 1;
    for (const BatchSpans to = tiny.trainer().train_tokens(0); int32_t & id : to.targets) id = 2;
    const std::vector<std::byte> before = bytes_of_state(tiny);
    const StepReport report = tiny.trainer().step(0, 20.0f);
    EXPECT_TRUE(report.skipped);
    EXPECT_EQ(report.overflowing, std::string("weight.") + kHuge);
    EXPECT_EQ(bytes_of_state(tiny), before);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, StateOverflow, ::testing::Values("ref", "cpu"),
                         [](const auto& backend) { return std::string(backend.param); });

}  // namespace
}  // namespace ng
