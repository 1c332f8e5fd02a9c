// Factors of rotary frequencies: those of llama.cpp's converter, and back to what they were made
// of.
#include "io/gguf/rope.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "io/gguf/model.h"
#include "support/scratch_folder.h"

namespace ng::io {
namespace {

class GgufRope : public ScratchFolder {
 protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    make_folders(folder_);
  }
  /// A file with these factors.
  [[nodiscard]] Gguf file(const std::vector<float>& factors) const {
    const std::string path = in("a.gguf");
    GgufWriter writer(path, {}, {{std::string(kGgufRopeFactors), "F32", {std::ssize(factors)}}});
    writer.write(std::as_bytes(std::span(factors)));
    writer.commit();
    return Gguf(path);
  }
  [[nodiscard]] std::string refused(const std::vector<float>& factors,
                                    const ModelConfig& config) const {
    return error_of([&] { (void)read_gguf_rope(file(factors), config); })
        .substr(in("a.gguf: ").size());
  }
};

ModelConfig config_of(int64_t head_dim, float theta, const RopeScaling& scaling) {
  return {.architecture = Architecture::llama,
          .head_dim = head_dim,
          .rope_theta = theta,
          .rope_scaling = scaling};
}

// What torch gives for the lines of conversion/llama.py.
TEST(GgufRopeFactors, AreThoseOfTheConverter) {
  EXPECT_EQ(gguf_rope_factors(config_of(8, 100, {.factor = 8, .original_context = 64})),
            (std::vector<float>{1.0f, 1.293975830078125f, 7.667385101318359f, 8.0f}));
  EXPECT_EQ(gguf_rope_factors(config_of(16, 10000, {.factor = 4, .original_context = 50})),
            (std::vector<float>{1, 1.589534044265747f, 4, 4, 4, 4, 4, 4}));
  EXPECT_TRUE(gguf_rope_factors(config_of(8, 100, {})).empty());
}

/// Whether a factor is between those that tell nothing of the context.
bool tells_context(const std::vector<float>& factors, double factor) {
  const auto is_between = [&](float each) { return each > 1.01 && each < 0.99 * factor; };
  return factors.back() == static_cast<float>(factor) &&
         std::any_of(factors.begin(), factors.end(), is_between);
}

TEST_F(GgufRope, OfLlama3IsFoundAgain) {
  int told = 0;
  const auto check = [&](const ModelConfig& config) {
    const std::vector<float> factors = gguf_rope_factors(config);
    ModelConfig again = config;
    again.rope_scaling = read_gguf_rope(file(factors), config);
    std::vector<float> same = gguf_rope_factors(again);
    if (factors.back() == 1) same = std::vector<float>(factors.size(), 1);  // no scaling at all
    ASSERT_EQ(same.size(), factors.size());
    for (size_t i = 0; i < same.size(); ++i) EXPECT_NEAR(same[i], factors[i], 1e-5 * factors[i]);
    if (!tells_context(factors, config.rope_scaling.factor)) return;
    ++told;
    EXPECT_EQ(again, config) << config.head_dim << ' ' << config.rope_theta;
  };
  for (const int64_t head_dim : {8, 32, 64, 128})
    for (const float theta : {100.0f, 10000.0f, 500000.0f})
      for (const double factor : {2.5, 8.0, 32.0})
        for (const int64_t context : {40, 64, 1000, 8192})
          check(config_of(head_dim, theta, {.factor = factor, .original_context = context}));
  EXPECT_GT(told, 80);
}

// Twice the turns in twice the context are the same factors.
TEST_F(GgufRope, OfOtherTurnsScalesAlike) {
  for (const auto& [low, high] : {std::pair(2.0, 5.5), std::pair(0.5, 20.0)}) {
    const ModelConfig config = config_of(
        128, 500000,
        {.factor = 8, .low_freq_factor = low, .high_freq_factor = high, .original_context = 8192});
    const std::vector<float> factors = gguf_rope_factors(config);
    const RopeScaling found = read_gguf_rope(file(factors), config);
    const double ratio = static_cast<double>(found.original_context) / 8192;
    EXPECT_NEAR(found.low_freq_factor, low * ratio, 1e-4);
    EXPECT_NEAR(found.high_freq_factor, high * ratio, 1e-4);
  }
}

TEST_F(GgufRope, IsNoneWithoutFactors) {
  const ModelConfig config = config_of(8, 100, {});
  EXPECT_EQ(read_gguf_rope(file({1, 1, 1, 1}), config), RopeScaling{});
  EXPECT_EQ(
      read_gguf_rope(Gguf(std::string(NG_SOURCE_DIR) + "/tests/golden/interop/types/types.gguf"),
                     config),
      RopeScaling{});
}

TEST_F(GgufRope, RefusesWhatIsNoneOfLlama3) {
  const ModelConfig config = config_of(8, 100, {});
  const std::string key = "\"rope_freqs.weight\": ";
  EXPECT_EQ(refused({1, 2, 4}, config), key + "F32 of shape [3]: F32 [4], one of each frequency");
  EXPECT_EQ(refused({1, 4, 2, 4}, config),
            key + "is no list of factors: factors of 1 or more that do not fall");
  EXPECT_EQ(refused({0, 1, 2, 4}, config),
            key + "is no list of factors: factors of 1 or more that do not fall");
  EXPECT_EQ(refused({1.5, 1.6, 1.7, 4}, config),
            key + "is no scaling of Llama 3's kind: factors as Llama 3 has them");
}

// llama.cpp divides by a factor where no type is named; older files have another key for it.
TEST_F(GgufRope, RefusesFrequenciesThatAreDivided) {
  ModelConfig config = config_of(8, 100, {});
  config.vocab = config.context = config.width = config.ffn = 16;
  config.heads = config.kv_heads = 2;
  config.layers = 1;
  const auto read = [&](const GgufKeys& more) {
    const std::string path = in("rope.gguf");
    GgufKeys keys = gguf_model_keys(config, "m", "F32");
    keys.insert(keys.end(), more.begin(), more.end());
    GgufWriter(path, keys, {}).commit();
    const std::string said = error_of([&] { (void)read_gguf_config(Gguf(path)); });
    return said == "accepted" ? "" : said.substr(path.size());
  };
  const auto type = [](const char* name) {
    return std::pair("llama.rope.scaling.type", GgufValue::of_text(name));
  };
  const auto factor = [](float value) {
    return std::pair("llama.rope.scaling.factor", GgufValue::of_f32(value));
  };
  const std::string remedy = " is not supported: 1, or \"none\" as rope.scaling.type";
  EXPECT_EQ(read({factor(4)}), ": llama.rope.scaling.factor: 4" + remedy);
  EXPECT_EQ(read({{"llama.rope.scale_linear", GgufValue::of_f32(2)}}),
            ": llama.rope.scale_linear: 2" + remedy);
  EXPECT_EQ(read({type("linear"), factor(4)}), ": llama.rope.scaling.factor: 4" + remedy);
  EXPECT_EQ(read({type("yarn")}), ": llama.rope.scaling.type: \"yarn\" is not supported: none");
  for (const GgufKeys& keys :
       {GgufKeys{}, GgufKeys{type("none"), factor(4)}, GgufKeys{type("linear"), factor(1)}})
    EXPECT_EQ(read(keys), "");
}

}  // namespace
}  // namespace ng::io
