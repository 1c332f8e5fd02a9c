// A step allocates nothing, takes the memory that was planned, has the same bits however it is run,
// and leaves everything as it was when something is not finite.
#include "train/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <new>
#include <string>

#include "recipe/layer_names.h"
#include "support/feature_matrix.h"
#include "support/tiny_run.h"

namespace {
std::atomic<int64_t> heap_allocations{0};

void* counted(size_t bytes, size_t alignment) noexcept {
  ++heap_allocations;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  return std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
}

void* counted_or_throw(size_t bytes, size_t alignment) {
  void* memory = counted(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

constexpr size_t kAlignment = alignof(std::max_align_t);
}  // namespace

// Every form is replaced: a sanitizer supplies its own where one is left out, and memory must be
// freed by the counterpart of what allocated it (the library's stable_sort uses the nothrow form).
void* operator new(size_t bytes) { return counted_or_throw(bytes, kAlignment); }
void* operator new[](size_t bytes) { return counted_or_throw(bytes, kAlignment); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes, kAlignment);
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes, kAlignment);
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return counted_or_throw(bytes, static_cast<size_t>(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return counted_or_throw(bytes, static_cast<size_t>(alignment));
}
// Not inlined: GCC 12 would see free() of what an operator new gave that it did not inline.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace ng {
namespace {

const char* const kNarrowRecipe =
    "name = \"narrow\"\n"
    "compute = \"bf16\"\n"
    "linear.fprop = { input=\"mxfp4\", weight=\"nvfp4\" }\n"
    "linear.dgrad = { grad={format=\"mxfp4\", rounding=\"stochastic\", prescale=0.75}, "
    "weight=\"mxfp4\", hadamard=32 }\n"
    "linear.wgrad = { grad={format=\"fp8_e5m2\", scaling=\"delayed\"}, input=\"fp8_e4m3\" }\n";

std::vector<float> weights_after(const TinyRunOptions& options, int64_t steps) {
  TinyRun tiny(options);
  for (int64_t step = 0; step < steps; ++step) EXPECT_FALSE(tiny.step(step).skipped);
  return tiny.weights();
}

TEST(Trainer, AllocatesExactlyWhatWasPlanned) {
  for (const RecomputePolicy recompute : {RecomputePolicy::none, RecomputePolicy::block}) {
    TinyRunOptions options;
    options.recipe = kNarrowRecipe;
    options.recompute = recompute;
    TinyRun tiny(options);
    EXPECT_EQ(tiny.trainer().memory().total, tiny.run().allocated_bytes());
    tiny.step(0);
    EXPECT_EQ(tiny.trainer().memory().total, tiny.run().allocated_bytes());
  }
}

TEST(Trainer, NoHeapAllocationFromTheSecondStepOn) {
  for (const bool of_pairs : {false, true})
    for (const char* recipe : {"name = \"fp32\"", kNarrowRecipe}) {
      TinyRunOptions options;
      options.recipe = recipe;
      options.threads = 2;
      options.micros = 2;
      if (of_pairs) options.dpo.emplace();
      TinyRun tiny(options);
      tiny.step(0);
      const int64_t before = heap_allocations;
      tiny.step(1);
      tiny.step(2);
      EXPECT_EQ(heap_allocations - before, 0) << recipe << (of_pairs ? " of pairs" : "");
    }
}

TEST(Trainer, SameBitsOnAnyNumberOfThreadsAndWithRecompute) {
  for (const ModelConfig& model : {tiny_llama(), tiny_gpt2()}) {
    for (const char* recipe : {"name = \"fp32\"", kNarrowRecipe}) {
      TinyRunOptions options;
      options.model = model;
      options.recipe = recipe;
      options.micros = 2;
      const std::vector<float> want = weights_after(options, 3);
      options.threads = 2;
      EXPECT_EQ(weights_after(options, 3), want);
      options.threads = 3;
      options.recompute = RecomputePolicy::block;
      EXPECT_EQ(weights_after(options, 3), want);
    }
  }
}

const char* const kSumsInFp32 = "name='n'";
const char* const kSumsInBf16 = "name='n'\ngradient.accumulate='bf16'";

using Gradients = std::map<std::string, std::vector<float>>;

// The sums of a step, by parameter; its micro-batches are random ones with these numbers.
Gradients gradients_of(const char* recipe, const std::vector<uint32_t>& batches) {
  TinyRunOptions options;
  options.recipe = recipe;
  options.micros = std::ssize(batches);
  TinyRun tiny(options);
  const auto vocab = static_cast<uint32_t>(options.model.vocab);
  for (size_t micro = 0; micro < batches.size(); ++micro) {
    const RandomKey key{
        .seed = 1, .tensor = 0, .step = batches[micro], .purpose = Purpose::data, .micro = 0};
    const BatchSpans to = tiny.trainer().train_tokens(static_cast<int64_t>(micro));
    for (size_t i = 0; i < to.inputs.size(); ++i) {
      to.inputs[i] = static_cast<int32_t>(draw(key, i)[0] % vocab);
      to.targets[i] = static_cast<int32_t>(draw(key, i)[1] % vocab);
    }
  }
  Gradients gradients;
  tiny.trainer().set_gradient_observer([&] {
    for (const Parameter& p : tiny.model().parameters())
      gradients[p.spec.name] = download(tiny.run().backend(), p.grad.view());
  });
  EXPECT_FALSE(tiny.trainer().step(0, 1e-2f).skipped);
  return gradients;
}

bool is_of_linear_layer(const std::string& name) {
  return name == layers::weight_of(layers::kHead) ||
         (layers::place_of(name).block >= 0 && !name.ends_with("norm1.weight") &&
          !name.ends_with("norm2.weight") && !name.ends_with(".bias"));
}

// Of the linear layers, whose other words stay what they are.
TEST(Trainer, GradientsThatAreAccumulatedInBf16AreThoseRounded) {
  const Gradients rounded = gradients_of(kSumsInBf16, {0});
  for (auto& [name, want] : gradients_of(kSumsInFp32, {0})) {
    if (is_of_linear_layer(name))
      std::transform(want.begin(), want.end(), want.begin(), round_to_bf16);
    EXPECT_EQ(rounded.at(name), want) << name;
  }
}

// Each addition rounds once to BF16, by at most 2^-8 of the sum, which the errors of those before
// have moved. Their FP32 roundings, and those of the sums compared with, are below 2^-20 of the
// sum of magnitudes. What a micro-batch adds is a third of what it adds three times.
TEST(Trainer, MicroBatchesAddToGradientsInBf16) {
  const Gradients rounded = gradients_of(kSumsInBf16, {0, 1, 2});
  const Gradients exact = gradients_of(kSumsInFp32, {0, 1, 2});
  const Gradients thrice[] = {gradients_of(kSumsInFp32, {0, 0, 0}),
                              gradients_of(kSumsInFp32, {1, 1, 1}),
                              gradients_of(kSumsInFp32, {2, 2, 2})};
  int linear = 0;
  for (const auto& [name, want] : exact) {
    const std::vector<float>& have = rounded.at(name);
    if (!is_of_linear_layer(name)) {
      EXPECT_EQ(have, want) << name;
      continue;
    }
    ++linear;
    EXPECT_NE(have, want) << name;
    for (size_t i = 0; i < want.size(); ++i) {
      double sum = 0, magnitudes = 0, error = 0;
      for (const Gradients& of : thrice) {
        const double part = double{of.at(name)[i]} / 3;
        sum += part;
        magnitudes += std::abs(part);
        error += 0x1p-8 * (std::abs(sum) + error);
      }
      EXPECT_EQ(have[i], round_to_bf16(have[i])) << name << ' ' << i;
      EXPECT_NEAR(have[i], want[i], error + 0x1p-20 * magnitudes) << name << ' ' << i;
    }
  }
  EXPECT_GE(linear, 14);
}

TEST(Trainer, ActivationsInBf16TakeHalfOfTheMemory) {
  const auto planned = [](const std::string& recipe, MemoryKind kind) {
    TinyRunOptions options;
    options.recipe = recipe;
    options.model.width = 64;
    options.model.ffn = 160;
    options.model.head_dim = 32;
    options.micros = 2;
    return static_cast<double>(
        TinyRun(options).trainer().memory().bytes[static_cast<size_t>(kind)]);
  };
  const double fp32 = planned("name='n'", MemoryKind::activations);
  for (const char* recipe : {"inherit='bf16'", "inherit='mxfp4-all'", "inherit='nvfp4-all'"})
    EXPECT_LE(planned(recipe, MemoryKind::activations), 0.55 * fp32) << recipe;
  EXPECT_LE(planned("gradient.accumulate='bf16'", MemoryKind::gradients),
            0.75 * planned("name='n'", MemoryKind::gradients));
}

// Only planned: the memory is taken but nothing writes to it.
TEST(Trainer, ActivationsOfCharGptInBf16TakeHalfOfTheMemory) {
  const auto planned = [](const std::string& recipe_text) {
    const Recipe recipe = Recipe::parse(recipe_text, "test.toml");
    ng::Run run(make_backend("cpu", Threads{1}), 7);
    Model model(run, model_preset("char-gpt"), recipe, RecomputePolicy::none);
    const Trainer trainer(run, model, recipe, {.sequences = 8, .length = 256, .optimizer = {}});
    return static_cast<double>(
        trainer.memory().bytes[static_cast<size_t>(MemoryKind::activations)]);
  };
  const double fp32 = planned("name='n'");
  for (const char* recipe : {"inherit='bf16'", "inherit='mxfp4-all'", "inherit='nvfp4-all'"})
    EXPECT_LE(planned(recipe), 0.55 * fp32) << recipe;
}

TEST(Trainer, EvaluationLeavesNoTrace) {
  TinyRunOptions options;
  options.recipe = kNarrowRecipe;
  const std::vector<float> want = weights_after(options, 3);
  TinyRun tiny(options);
  for (int64_t step = 0; step < 3; ++step) {
    tiny.step(step);
    std::fill(tiny.trainer().evaluation_tokens().mask.begin(),
              tiny.trainer().evaluation_tokens().mask.end(), 1.0f);
    EXPECT_TRUE(std::isfinite(tiny.trainer().evaluate()));
  }
  EXPECT_EQ(tiny.weights(), want);
}

TEST(Trainer, EveryNarrowFormatSkipsAStepWithAnInfiniteWeight) {
  for (const std::string_view format : operand_names()) {
    for (const char* backend : {"cpu", "ref"}) {
      TinyRunOptions options;
      options.recipe = fmt::format(
          "name = \"one\"\nlinear.fprop = {{ input=\"{0}\", weight=\"{0}\" }}\n", format);
      options.backend = backend;
      TinyRun tiny(options);
      EXPECT_FALSE(tiny.step(0).skipped) << format;
      tiny.model().parameters()[5].value().as<float>().data[0] =
          std::numeric_limits<float>::infinity();
      EXPECT_TRUE(tiny.step(1).skipped) << format << ' ' << backend;
    }
  }
}

TEST(Trainer, StochasticForwardOperandsEvaluateToNearest) {
  for (const int bits : {8, 16, 32}) {
    TinyRunOptions options;
    options.recipe = fmt::format(
        "name = \"sr\"\nlinear.fprop.input = {{ format=\"mxfp4\", rounding=\"stochastic\", "
        "sr_bits={} }}\n",
        bits);
    TinyRun tiny(options);
    tiny.step(0);
    EXPECT_TRUE(std::isfinite(tiny.trainer().evaluate())) << bits;
  }
}

TEST(Trainer, ANonFiniteWeightSkipsTheStepAndIsNamed) {
  for (const char* recipe : {"name = \"fp32\"", kNarrowRecipe}) {
    TinyRunOptions options;
    options.recipe = recipe;
    TinyRun tiny(options);
    tiny.step(0);
    for (Parameter& p : tiny.model().parameters())
      if (p.spec.name == "blocks.1.mlp.down.weight")
        p.value().as<float>().data[3] = std::numeric_limits<float>::infinity();
    const std::vector<float> before = tiny.weights();
    EXPECT_TRUE(tiny.step(1).skipped);
    const Diagnosis diagnosis = tiny.trainer().diagnose(1);
    EXPECT_TRUE(diagnosis.found);
    EXPECT_EQ(diagnosis.layer, "blocks.1.mlp.down");
    EXPECT_EQ(diagnosis.operand, "fprop.weight");
    EXPECT_EQ(tiny.weights(), before);
  }
}

// The backends' non-GEMM operations differ in the last bits, which flips single roundings of
// narrow operands: the mean loss over 33 tokens of so small a model then moves by under 0.01 and
// the gradient by a few percent. What each operand must be is nn/linear_test's business.
TEST(FeatureMatrix, EveryRecipeTrainsTwoStepsAlikeOnBothBackends) {
  const std::vector<FeatureLevels> matrix = feature_matrix();
  size_t skipped = 0;
  for (const FeatureLevels& levels : matrix) {
    TinyRunOptions options;
    options.recipe = feature_recipe(levels);
    TinyRun cpu(options);
    options.backend = "ref";
    TinyRun ref(options);
    for (int64_t step = 0; step < 2; ++step) {
      const StepReport have = cpu.step(step), want = ref.step(step);
      // overflow = "special" with a delayed scale may overflow, but then on both.
      ASSERT_EQ(have.skipped, want.skipped) << options.recipe;
      skipped += have.skipped ? 1 : 0;
      ASSERT_NEAR(have.loss, want.loss, 0.01) << options.recipe;
      if (have.skipped) continue;
      ASSERT_NEAR(have.grad_norm, want.grad_norm, 0.1 * want.grad_norm) << options.recipe;
    }
  }
  EXPECT_LT(skipped, matrix.size() / 10);
}

TEST(NamedRecipes, AllThatThisVersionRunsTrain) {
  int trained = 0;
  for (const std::string& name : recipe_names()) {
    const Recipe recipe = Recipe::load(name);
    TinyRunOptions options;
    options.recipe = recipe.resolved_toml();
    TinyRun tiny(options);
    const double first = tiny.step(0).loss;
    double last = first;
    for (int64_t step = 1; step < 4; ++step) last = tiny.step(step).loss;
    EXPECT_TRUE(std::isfinite(last)) << name;
    ++trained;
  }
  EXPECT_GE(trained, 20);
}

}  // namespace
}  // namespace ng
