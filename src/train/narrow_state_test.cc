// Runs whose weights, moments or both persist in few bits: the same bits on any number of threads,
// with recomputation, and after going on from nothing but what the register says is saved.
#include <gtest/gtest.h>

#include "support/tiny_run.h"

namespace ng {
namespace {

// Wide enough that the moments of its MLP are stored narrow.
ModelConfig wide_llama() {
  ModelConfig c = tiny_llama();
  c.head_dim = 32;
  c.width = 64;
  c.ffn = 96;
  return c;
}

const char* const kFp8States =
    "inherit='fp8-current'\nweights={storage={format='fp8_e4m3', scale='pow2'}, master='fp16'}\n"
    "optimizer={moment1={format='fp8_e4m3', scale='pow2'},"
    " moment2={format='fp16', block='tensor', scale='pow2'}}";
const char* const kNvfp4 =
    "inherit='nvfp4-all'\nweights={storage='nvfp4', update='stochastic'}\n"
    "optimizer={moment1='int8', moment2='mxfp8_e4m3'}";

const char* const kNarrowRecipes[] = {
    "inherit='fp32'",
    "inherit='bf16'\ngradient.accumulate='bf16'",
    "inherit='naive-bf16'",
    "inherit='sr-bf16'",
    "inherit='kahan-bf16'",
    "inherit='residual-bf16'",
    "inherit='residual-bf16'\nweights.residual_bits=4",
    "inherit='precision-aware-bf16'",
    "inherit='feedback-bf16'",
    "inherit='naive-fp8'",
    "inherit='sr-fp8'",
    "inherit='residual-fp8'",
    "inherit='feedback-fp8'",
    "inherit='precision-aware-fp8'",
    "inherit='adamw-fp8-states'",
    "inherit='bf16'\nweights={storage='fp16', update='stochastic'}\noptimizer.kind='sgd'",
    "inherit='mxfp4-all'\nweights={storage='mxfp4', master='fp16'}\noptimizer.moment2='fp16'",
    "inherit='coat-adamw'\noptimizer={moment1.min_size=0, moment2.min_size=0}",
    "inherit='adam8bit'",
    "inherit='bf16-sr'\noptimizer={moment1={format='bf16', parts=2}, moment2={format='bf16', "
    "parts=2}}",
    "inherit='adam-mini'\noptimizer.moment1={format='int8', block=[1, 64], map='dynamic'}",
    "inherit='adam-mini'",
    "inherit='feedback-fp8'\noptimizer.kind='adam_mini'",
    "inherit='bf16'\noptimizer.kind='muon'",
    "inherit='residual-fp8'\noptimizer={kind='muon', moment1={format='bf16', "
    "rounding='stochastic'}}",
    "inherit='mxfp8'\nweights={storage='mxfp8_e4m3', update='residual'}",
    "inherit='nvfp4'\nweights={storage='nvfp4', update='residual'}",
    "inherit='int8'\nweights={storage='int8', update='residual', residual_bits=4}",
    kFp8States,
    "inherit='fp8-lm'",
    "inherit='gaussws-all'\nweight_noise.bitwidth_loss=0.01",
    "inherit='adam-mini-diffq'\nweights={storage='bf16', update='stochastic'}",
    "inherit='nipq'\ngradient.accumulate='bf16'",
    "inherit='sr-bf16'\ngradient={accumulate='bf16', communicate={format='mxfp8_e4m3', "
    "rounding='stochastic'}}",
    kNvfp4,
};

TinyRunOptions options_of(const char* recipe) {
  TinyRunOptions options;
  options.model = wide_llama();
  options.recipe = std::string("name='test'\n") + recipe;
  options.micros = 2;
  return options;
}

using StateBytes = std::vector<std::byte>;

/// Everything that a checkpoint would hold, as it lies in memory.
std::vector<StateBytes> state_of(TinyRun& tiny) {
  std::vector<StateBytes> state;
  for (const Persistent& row : tiny.run().persistents()) {
    if (!row.spec.is_saved) continue;
    StateBytes bytes(row.view.bytes());
    tiny.run().backend().download(bytes.data(), row.view.data, bytes.size());
    state.push_back(std::move(bytes));
  }
  return state;
}

void put_state(TinyRun& tiny, const std::vector<StateBytes>& state) {
  size_t next = 0;
  for (const Persistent& row : tiny.run().persistents())
    if (row.spec.is_saved) {
      const StateBytes& bytes = state.at(next++);
      tiny.run().backend().upload(row.view.data, bytes.data(), bytes.size());
    }
}

class NarrowState : public ::testing::TestWithParam<const char*> {};

TEST_P(NarrowState, IsTheSameOnAnyNumberOfThreadsAndWithRecompute) {
  TinyRunOptions options = options_of(GetParam());
  std::vector<StateBytes> want;
  for (const int threads : {1, 2, 3}) {
    options.threads = threads;
    options.recompute = threads == 3 ? RecomputePolicy::block : RecomputePolicy::none;
    TinyRun tiny(options);
    for (int step = 0; step < 3; ++step) EXPECT_FALSE(tiny.step(step).skipped);
    if (threads == 1) want = state_of(tiny);
    EXPECT_EQ(state_of(tiny), want) << threads;
  }
}

TEST_P(NarrowState, GoesOnFromWhatIsSaved) {
  TinyRun whole(options_of(GetParam())), resumed(options_of(GetParam()));
  for (int step = 0; step < 2; ++step) (void)whole.step(step);
  put_state(resumed, state_of(whole));
  for (int step = 2; step < 4; ++step) {
    const StepReport a = whole.step(step), b = resumed.step(step);
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_EQ(a.grad_norm, b.grad_norm);
  }
  EXPECT_EQ(state_of(whole), state_of(resumed));
}

TEST_P(NarrowState, IsTheSameWhereUpdatesReport) {
  TinyRun silent(options_of(GetParam())), reporting(options_of(GetParam()));
  reporting.trainer().set_reports_details(true);
  for (int step = 0; step < 3; ++step) {
    EXPECT_EQ(silent.step(step).loss, reporting.step(step).loss);
    for (const UpdateReport& report : reporting.trainer().update_reports())
      EXPECT_GT(report.target_squares, 0);
  }
  EXPECT_EQ(state_of(silent), state_of(reporting));
}

TEST_P(NarrowState, LearnsOneBatch) {
  TinyRun tiny(options_of(GetParam()));
  const double before = tiny.step(0).loss;
  double after = before;
  for (int i = 0; i < 12; ++i) after = tiny.step(0).loss;
  EXPECT_LT(after, before);
}

INSTANTIATE_TEST_SUITE_P(Recipes, NarrowState, ::testing::ValuesIn(kNarrowRecipes));

// StateBytes per parameter as stored, of a model whose every parameter but 5 norms is a matrix.
// What rounding takes off the first weights lies in the carries: training begins where FP32 does.
TEST(NarrowState, CarriesBeginWithWhatRoundingLeft) {
  TinyRun wide(options_of("inherit='bf16'")), residual(options_of("inherit='residual-bf16'")),
      kahan(options_of("inherit='kahan-bf16'"));
  const auto values = [](TinyRun& tiny, const ConstView& view) {
    return download(tiny.run().backend(), view);
  };
  int checked = 0;
  for (size_t p = 0; p < wide.model().parameters().size(); ++p) {
    const Parameter &by8 = residual.model().parameters()[p], &by16 = kahan.model().parameters()[p];
    if (by8.weight.carry.rows == 0) continue;
    const std::vector<float> want = values(wide, wide.model().parameters()[p].value());
    const std::vector<float> w = values(residual, by8.value()),
                             q = values(residual, by8.weight.carry),
                             k = values(kahan, by16.value()), c = values(kahan, by16.weight.carry);
    for (size_t i = 0; i < w.size(); ++i) {
      const double unit = std::ldexp(1.0, std::ilogb(w[i]) - 7 - 8);
      ASSERT_LE(std::fabs(w[i] + q[i] * unit - want[i]), unit) << by8.spec.name << " " << i;
      ASSERT_LE(std::fabs(k[i] - c[i] - want[i]), unit) << by8.spec.name << " " << i;
    }
    ++checked;
  }
  EXPECT_GT(checked, 3);
}

TEST(NarrowState, BytesAreThoseOfTheFormats) {
  const auto bytes_of_kind = [](const char* recipe, MemoryKind kind) {
    TinyRun tiny(options_of(recipe));
    const size_t bytes = tiny.trainer().memory().bytes[static_cast<size_t>(kind)];
    return static_cast<double>(bytes) / static_cast<double>(tiny.model().parameter_count());
  };
  EXPECT_NEAR(bytes_of_kind("inherit='bf16'", MemoryKind::weights), 4, 0.05);
  EXPECT_NEAR(bytes_of_kind("inherit='sr-bf16'", MemoryKind::weights), 2, 0.05);
  EXPECT_NEAR(bytes_of_kind("inherit='residual-bf16'", MemoryKind::weights), 3, 0.05);
  EXPECT_NEAR(bytes_of_kind("inherit='kahan-bf16'", MemoryKind::weights), 4, 0.05);
  const char* master = "inherit='bf16'\nweights={storage='bf16', master='fp16'}";
  EXPECT_NEAR(bytes_of_kind(master, MemoryKind::weights), 2, 0.05);
  EXPECT_NEAR(bytes_of_kind(master, MemoryKind::master), 2, 0.05);
}

}  // namespace
}  // namespace ng
