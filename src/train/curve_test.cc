// Learning curves of small character models in FP32 agree with PyTorch's over several seeds, as
// tests/golden/README.md ("curves/") asks. Needs tinyshakespeare.txt: $NARROWGAUGE_TEXTS, or the
// folder shared/data beside the checkout.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <numbers>

#include "base/files.h"
#include "io/safetensors.h"
#include "run/backends.h"
#include "train/trainer.h"

namespace ng {
namespace {

constexpr int64_t kLength = 64, kSequences = 12, kSteps = 300, kWarmup = 30, kWindows = 256;
constexpr double kLr = 3e-3, kMinLr = 3e-4;

std::string text_path() {
  const char* folder = std::getenv("NARROWGAUGE_TEXTS");
  const std::string base =
      folder != nullptr ? folder : std::string(NG_SOURCE_DIR) + "/../shared/data";
  return base + "/tinyshakespeare.txt";
}

// Ids of the characters, sorted by code point.
std::vector<int32_t> character_ids(const std::string& text) {
  std::array<bool, 256> used{};
  for (const char c : text) used[static_cast<unsigned char>(c)] = true;
  std::array<int32_t, 256> id{};
  int32_t next = 0;
  for (size_t c = 0; c < 256; ++c)
    if (used[c]) id[c] = next++;
  std::vector<int32_t> ids;
  for (const char c : text) ids.push_back(id[static_cast<unsigned char>(c)]);
  return ids;
}

ModelConfig curve_model(std::string_view name) {
  ModelConfig c;
  c.vocab = 65;
  c.layers = c.heads = 4;
  c.head_dim = 16;
  c.width = 64;
  c.context = kLength;
  if (name == "gpt2_char") {
    c.architecture = Architecture::gpt2;
    c.kv_heads = 4;
    c.ffn = 256;
    c.attention_bias = c.mlp_bias = c.norm_bias = true;
  } else {
    c.kv_heads = 2;
    c.ffn = 176;
    c.tie_embeddings = false;
  }
  return c;
}

double rate(int64_t s) {
  if (s < kWarmup) return kLr * static_cast<double>(s + 1) / static_cast<double>(kWarmup);
  const double x = static_cast<double>(s - kWarmup) / static_cast<double>(kSteps - kWarmup);
  return kMinLr + 0.5 * (1 + std::cos(std::numbers::pi * x)) * (kLr - kMinLr);
}

void copy_window(const std::vector<int32_t>& ids, size_t from, size_t row, const BatchSpans& to) {
  const size_t at = row * kLength;
  std::copy_n(ids.begin() + static_cast<int64_t>(from), kLength, &to.inputs[at]);
  std::copy_n(ids.begin() + static_cast<int64_t>(from) + 1, kLength, &to.targets[at]);
}

struct Curve {
  std::vector<double> loss10;  // mean training loss of ten steps
  double validation = 0;
};

double validate(Trainer& trainer, const std::vector<int32_t>& ids, size_t first) {
  double loss = 0;
  for (int64_t window = 0; window < kWindows; window += kSequences) {
    const BatchSpans to = trainer.evaluation_tokens();
    for (int64_t row = 0; row < kSequences; ++row) {
      const bool counts = window + row < kWindows;
      const int64_t index = std::min(window + row, kWindows - 1);
      copy_window(ids, first + static_cast<size_t>(index * kLength), static_cast<size_t>(row), to);
      std::fill_n(&to.mask[static_cast<size_t>(row * kLength)], kLength, counts ? 1.0f : 0.0f);
    }
    loss += trainer.evaluate();
  }
  return loss / static_cast<double>(kWindows * kLength);
}

Curve train_curve(std::string_view name, uint64_t seed, const std::vector<int32_t>& ids) {
  const Recipe recipe = Recipe::parse("name = \"fp32\"", "test");
  Run run(make_backend("cpu", Threads{2}), seed);
  Model model(run, curve_model(name), recipe, RecomputePolicy::none);
  StepSettings settings;
  settings.sequences = kSequences;
  settings.length = kLength;
  Trainer trainer(run, model, recipe, settings);
  model.initialize(run);
  const size_t split = ids.size() * 9 / 10;
  Curve curve;
  double sum = 0;
  for (int64_t s = 0; s < kSteps; ++s) {
    for (size_t row = 0; row < kSequences; ++row) {
      RandomKey key;
      key.seed = seed;
      key.step = static_cast<uint32_t>(s);
      key.purpose = Purpose::data;
      const size_t from = draw(key, row)[0] % (split - kLength - 1);
      copy_window(ids, from, row, trainer.train_tokens(0));
    }
    sum += trainer.step(s, static_cast<float>(rate(s))).loss;
    if (s % 10 != 9) continue;
    curve.loss10.push_back(sum / 10);
    sum = 0;
  }
  curve.validation = validate(trainer, ids, split);
  return curve;
}

class LearningCurve : public ::testing::TestWithParam<const char*> {};

TEST_P(LearningCurve, StaysWithinTheSpreadOfPyTorchsSeeds) {
  if (!is_file(text_path())) GTEST_SKIP() << "no " << text_path();
  const std::vector<int32_t> ids = character_ids(read_file(text_path(), 10'000'000));
  const io::Safetensors golden(
      fmt::format("{}/tests/golden/curves/{}.safetensors", NG_SOURCE_DIR, GetParam()));
  const std::vector<float> mean = io::to_floats(golden.at("loss10_mean"));
  const std::vector<float> deviation = io::to_floats(golden.at("loss10_std"));
  const float val_mean = io::to_floats(golden.at("val_mean")).back();
  const float val_deviation = io::to_floats(golden.at("val_std")).back();

  constexpr int kSeeds = 2;
  double validation = 0;
  int points = 0, outside = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Curve curve = train_curve(GetParam(), seed, ids);
    validation += curve.validation / kSeeds;
    for (size_t i = 5; i < curve.loss10.size(); ++i) {  // after step 50
      ++points;
      const double bound = 4 * std::max<double>(deviation[i], 0.03);
      if (std::abs(curve.loss10[i] - mean[i]) > bound) ++outside;
    }
  }
  EXPECT_LE(outside, points / 20);
  EXPECT_NEAR(validation, val_mean,
              3 * std::max<double>(val_deviation, 0.025) * std::sqrt(1 + 1.0 / kSeeds));
  RecordProperty("validation", std::to_string(validation));
  RecordProperty("reference", std::to_string(val_mean));
}

INSTANTIATE_TEST_SUITE_P(Models, LearningCurve, ::testing::Values("gpt2_char", "llama_char"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace ng
