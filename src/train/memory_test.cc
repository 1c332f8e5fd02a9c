// The plan is what the process really takes: resident memory at the peak of training, less what was
// there before planning, is within 5 % of it for plans over 1 GiB.
#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "base/files.h"
#include "support/tiny_run.h"

namespace ng {
namespace {

// A field of /proc/self/status in bytes.
int64_t status_bytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  std::string name, unit;
  for (int64_t value = 0; status >> name;) {
    if (name == field + ":" && status >> value >> unit) return value * 1024;
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  throw std::runtime_error("no " + field);
}

// From here on VmHWM counts anew.
void forget_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

void expect_planned_peak(const TinyRunOptions& options, int64_t sequences) {
  forget_peak();
  const int64_t before = status_bytes("VmRSS");
  const Recipe recipe = Recipe::parse(options.recipe, "test.toml");
  Run run(make_backend(options.backend, Threads{options.threads}), 7);
  Model model(run, options.model, recipe, options.recompute);
  Trainer trainer(run, model, recipe,
                  {.sequences = sequences, .length = options.model.context, .optimizer = {}});
  model.initialize(run);
  for (int64_t step = 0; step < 2; ++step) (void)trainer.step(step, 1e-3f);
  const int64_t peak = status_bytes("VmHWM") - before;
  const auto planned = static_cast<int64_t>(trainer.memory().total);
  EXPECT_GT(planned, int64_t{1} << 30);
  EXPECT_LE(std::abs(peak - planned), planned / 20) << "peak " << peak << ", planned " << planned;
  testing::Test::RecordProperty("share_of_plan", std::to_string(double(peak) / double(planned)));
}

// A model whose parameters, of a vocabulary so large, outweigh all else.
TinyRunOptions of_many_parameters(int64_t vocab) {
  TinyRunOptions options;
  options.model = tiny_llama();
  options.model.vocab = vocab;
  options.model.width = 1024;
  options.model.heads = 16;
  options.model.kv_heads = 16;
  options.model.head_dim = 64;
  options.model.ffn = 2048;
  options.model.tie_embeddings = false;
  options.threads = 2;
  return options;
}

TEST(Memory, OfManyParametersIsThePlan) { expect_planned_peak(of_many_parameters(32000), 2); }

TEST(Memory, OfNarrowWeightsAndStatesIsThePlan) {
  TinyRunOptions options = of_many_parameters(56000);
  options.recipe =
      "name = \"narrow\"\ninherit = \"residual-bf16\"\n"
      "optimizer = { moment1={format=\"fp8_e4m3\", block=[1,128], rounding=\"stochastic\"},"
      " moment2={format=\"bf16\", rounding=\"stochastic\"} }\n";
  expect_planned_peak(options, 2);
}

TEST(Memory, OfManyTokensIsThePlan) {
  for (const char* recipe : {"name = \"fp32\"",
                             "name = \"b\"\nlinear.dgrad = { grad=\"mxfp4\", "
                             "weight=\"mxfp4\", hadamard=64 }\n"}) {
    TinyRunOptions options;
    options.model.width = 128;
    options.model.heads = 4;
    options.model.kv_heads = 4;
    options.model.head_dim = 32;
    options.model.ffn = 384;
    options.model.context = 256;
    options.recipe = recipe;
    options.threads = 2;
    expect_planned_peak(options, 256);
  }
}

}  // namespace
}  // namespace ng
