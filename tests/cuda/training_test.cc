// Whole training steps on the emulated card, beside those of other backends.
//
// Of the operations some have the bits of `ref`, the others results within a bound of theirs; both
// is what tests/conformance looks at, one operation at a time. Here the first are held to their
// bits over whole runs, with `ref` in the place of the others; and all together to `cpu`, as
// closely as other sums allow.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "backend/plan_backend.h"
#include "card_runs.h"
#include "support/scratch_folder.h"
#include "train/checkpoint.h"
#include "train/self_check.h"

namespace ng {
namespace {

constexpr const char* kRecipes[] = {"fp32", "bf16", "mxfp4-sr-rht"};
/// One or two of each kind of cast, update and noise; recipes_test.cc has all of them.
constexpr const char* kMoreRecipes[] = {"mxfp4-all",
                                        "mxfp8",
                                        "fp8-current",
                                        "fp8-delayed",
                                        "fp8-block",
                                        "fp8-lm",
                                        "nvfp4",
                                        "nvfp4-46",
                                        "quartet2",
                                        "int8",
                                        "nvint4-wgrad",
                                        "tetrajet",
                                        "residual-fp8",
                                        "kahan-bf16",
                                        "feedback-fp8",
                                        "sr-fp8",
                                        "adam-mini",
                                        "muon",
                                        "adamw-fp8-states",
                                        "adam8bit",
                                        "coat-adamw",
                                        "precision-aware-fp8",
                                        "gaussws-all",
                                        "nipq",
                                        "quartet",
                                        "fp4-dge",
                                        "nvfp4-tile",
                                        "nvfp4-row",
                                        "tetrajet-v2",
                                        "bitnet",
                                        "mixfp4"};

void expect_bits(const ModelConfig& model, std::span<const char* const> recipes, int64_t steps) {
  for (const char* recipe : recipes) expect_bits_of_ref(model, recipe, steps);
}

// Operands, GEMMs, embeddings, reductions, updates, at every step.
TEST(CudaTraining, WhatIsPromisedToTheBitIsSoOverGpt2sSteps) {
  expect_bits(tiny_gpt2(), kRecipes, 3);
}
TEST(CudaTraining, WhatIsPromisedToTheBitIsSoOverLlamasSteps) {
  expect_bits(tiny_llama(), kRecipes, 3);
  expect_bits(tiny_llama(), kMoreRecipes, 2);
}

// Whatever their size: those of `adam8bit` are FP32 in tensors as small as these.
TEST(CudaTraining, MomentsOfAllKindsHaveTheirBitsInTensorsOfAllSizes) {
  const auto expect = [](const std::string& moment, const std::string& optimizer) {
    TinyRunOptions options = options_of(tiny_llama(), "bf16", kCard);
    options.recipe += "\noptimizer = { " + optimizer + "moment1 = { " + moment + ", min_size = 0 }";
    options.recipe += optimizer.empty() ? ", moment2 = { " + moment + ", min_size = 0 } }" : " }";
    expect_bits_of_ref(options, 3);
  };
  for (const std::string moment : {"format = \"int8\", block = [1, 64], map = \"dynamic\"",
                                   "format = \"fp8_e4m3\", block = [1, 32], expand = true",
                                   "format = \"bf16\", parts = 2", "format = \"nvfp4\""}) {
    expect(moment, "");
    expect(moment, "kind = \"muon\", ");
  }
}

TEST(CudaTraining, WeightsInBlocksHaveTheirBits) {
  for (const std::string weights :
       {"storage = \"mxfp8_e4m3\", master = \"fp32\" }",
        "storage = \"mxfp4\", update = \"stochastic\" }",
        "storage = \"nvfp4\", update = \"kahan\" }", "storage = \"int8\", update = \"residual\" }",
        "storage = { format = \"nvfp4\", block = [16, 16] }, update = [\"stochastic\", "
        "\"momentum_feedback\"] }\noptimizer.moment1 = { format = \"fp8_e4m3\", scale = \"pow2\", "
        "rounding = \"stochastic\", min_size = 0 }"}) {
    TinyRunOptions options = options_of(tiny_llama(), "bf16", kCard);
    options.recipe += "\nweights = { " + weights;
    expect_bits_of_ref(options, 3);
  }
}

TEST(CudaTraining, StepsOnPairsHaveTheirBits) {
  for (const char* recipe : kRecipes) {
    TinyRunOptions options = options_of(tiny_llama(), recipe, kCard);
    options.dpo = {.beta = 0.3, .label_smoothing = 0.1, .reference_storage = {}};
    expect_bits_of_ref(options, 3);
  }
}

/// The largest distance of the losses of a step.
double distance(const Trained& a, const Trained& b) {
  double largest = 0;
  for (size_t i = 0; i < a.losses.size(); ++i)
    largest = std::max(largest, std::fabs(a.losses[i] - b.losses[i]));
  return largest;
}

// FP32: the golden models' tolerance of a loss. Where values are rounded to few bits, a sum in
// another order sends some to a neighbour, and two runs are as two of other roundings: that of
// FeatureMatrix, which holds `cpu` to `ref`.
void expect_beside_cpu(const ModelConfig& model, int64_t steps,
                       std::span<const char* const> recipes = kRecipes,
                       const char* backend = kCard) {
  for (const char* recipe : recipes) {
    SCOPED_TRACE(recipe);
    const Trained cpu = trained(options_of(model, recipe, "cpu"), steps);
    const Trained card = trained(options_of(model, recipe, backend), steps);
    TinyRunOptions other = options_of(model, recipe, backend);
    other.thread_order = 5;
    EXPECT_EQ(card.weights, trained(other, steps).weights) << "in another order of threads";
    const double off = distance(card, cpu), most = recipe == std::string("fp32") ? 1e-5 : 1e-2;
    EXPECT_LE(off, most);
    fmt::print("{:<13} loss {:.6f} -> {:.6f}, cpu {:.6f}; at most {:.2e} apart, of {:.0e}\n",
               recipe, card.losses.front(), card.losses.back(), cpu.losses.back(), off, most);
  }
}

TEST(CudaTraining, Gpt2StaysBesideTheCpusInAnyOrderOfThreads) { expect_beside_cpu(tiny_gpt2(), 3); }
TEST(CudaTraining, LlamaStaysBesideTheCpusInAnyOrderOfThreads) {
  expect_beside_cpu(tiny_llama(), 3);
}

// Folded, native FP8, INT8 and BF16. [backend/cuda/route.h]
TEST(CudaTraining, LlamaByMatrixUnitsStaysBesideTheCpus) {
  constexpr const char* kRoutes[] = {"bf16",        "mxfp4-all", "mxfp6",
                                     "fp8-current", "int8",      "nvfp4-all"};
  expect_beside_cpu(tiny_llama(), 3, kRoutes, kCardWithUnits);
}

TEST(CudaTraining, MatrixUnitsPassTheSelfCheckWithinItsBound) {
  const auto reference = make_backend("ref", {1}), card = make_backend(kCardWithUnits, {1});
  std::vector<LinearRecipe> recipes;
  for (const char* name : {"bf16", "mxfp4-all", "nvfp4-all", "fp8-delayed", "int8", "mxfp8"})
    recipes.push_back(
        Recipe::load(name).linear({.name = "blocks.1.mlp.up", .block = 1, .depth = 6}, 0));
  for (const Compute compute : {Compute::fp32, Compute::bf16})
    EXPECT_GT(self_check(*card, *reference, recipes, compute), 6);
}

// By name: build/release/cuda_test --gtest_also_run_disabled_tests
TEST(CudaTraining, DISABLED_TwentyStepsHaveTheirBitsAndStayBesideTheCpus) {
  for (const ModelConfig& model : {tiny_gpt2(), tiny_llama()}) {
    expect_bits(model, kRecipes, 20);
    expect_bits(model, kMoreRecipes, 20);
    expect_beside_cpu(model, 20);
  }
}

TEST(CudaTraining, WhatTheCardLacksIsNamedBeforeTheFirstStep) {
  const auto refused = [](int64_t head_dim) -> std::string {
    try {
      ModelConfig model = tiny_llama();
      model.head_dim = head_dim;
      TinyRun run({.model = model, .backend = kCard});
      return "trains";
    } catch (const Unsupported& lack) {
      return lack.what();
    }
  };
  EXPECT_EQ(refused(256), "trains");
  EXPECT_EQ(refused(258), "cuda: attention of heads above 256");
}

// Else memory is planned for other logits than are made.
TEST(CudaTraining, APlanHasTheLogitsOfTheCard) {
  const auto card = make_backend(kCard, Threads{1});
  EXPECT_GT(card->logits_bytes(), make_backend("cpu", Threads{1})->logits_bytes());
  EXPECT_EQ(PlanBackend(*card).logits_bytes(), card->logits_bytes());
  EXPECT_EQ(CardWithRefLayers().logits_bytes(), card->logits_bytes());
}

TEST(CudaTraining, AnOrderOfThreadsIsOfAnEmulatedCardAlone) {
  try {
    (void)make_backend("cpu", {1}, 3);
    FAIL() << "cpu takes an order of threads";
  } catch (const Error& refused) {
    EXPECT_EQ(refused.what(), std::string("--backend: cpu has no order of threads 3: no "
                                          "--thread-order or cuda.thread_order, or an emulated "
                                          "card"));
  }
}

class CudaCheckpoints : public ScratchFolder {
 protected:
  CudaCheckpoints() { identity_.model = Json::object(); }

  /// A run that has what `from` has, by a checkpoint.
  void hand_over(TinyRun& from, TinyRun& to, int64_t step) {
    save_checkpoint(folder_, step, from.run(), identity_, 1);
    (void)restore_checkpoint({.step = step, .path = in(fmt::format("step-{:08}", step))}, to.run(),
                             identity_);
    EXPECT_EQ(states_of(to), states_of(from));
  }

 private:
  static std::vector<std::vector<std::byte>> states_of(TinyRun& run) {
    std::vector<std::vector<std::byte>> all;
    for (const Persistent& row : run.run().persistents()) {
      if (!row.spec.is_saved) continue;
      all.emplace_back(row.view.bytes());
      run.run().backend().download(all.back().data(), row.view.data, all.back().size());
    }
    return all;
  }

  RunIdentity identity_;
};

TEST_F(CudaCheckpoints, OfTheCpuGoOnOnTheCardAndBack) {
  for (const char* recipe : kRecipes) {
    SCOPED_TRACE(recipe);
    TinyRun cpu(options_of(tiny_llama(), recipe, "cpu"));
    TinyRun card(options_of(tiny_llama(), recipe, kCard));
    TinyRun back(options_of(tiny_llama(), recipe, "cpu"));
    cpu.step(0);
    hand_over(cpu, card, 1);
    const double tolerance = recipe == std::string("fp32") ? 1e-5 : 1e-2;
    EXPECT_NEAR(card.step(1).loss, cpu.step(1).loss, tolerance);
    hand_over(card, back, 2);
    EXPECT_NEAR(back.step(2).loss, cpu.step(2).loss, tolerance);
  }
}

}  // namespace
}  // namespace ng
