// `noise_file` against independent oracles (tests/golden/noise), on every backend.
#include "tools/noise_file.h"

#include <gtest/gtest.h>

#include <cmath>

#include "math/bf16.h"
#include "support/golden_file.h"
#include "support/tensor_files.h"

namespace ng {
namespace {

class NoiseFile : public TensorFiles, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    TensorFiles::SetUp();
    settings_.backend = GetParam();
    settings_.threads = {2};
  }
  /// Adds noise to what was taken, and forgets it.
  io::Safetensors add_noise(const std::string& recipe) {
    write_taken(in("in"));
    report_ = noise_file(in("in"), in("out"), Recipe::parse(recipe, "test.toml"), settings_);
    return io::Safetensors(in("out"));
  }
  void set_key(const Json& key) {
    settings_.seed = std::stoull(key["seed"].get<std::string>());
    settings_.tensor_id = key["tensor_id"];
    settings_.step = key["step"];
  }

  NoiseFileSettings settings_;
  NoiseFileReport report_;
};

std::string recipe_of(const std::string& kind, const Json& parameters,
                      const std::string& more = "") {
  return fmt::format("weight_noise = {{ kind = '{}', b_init = {}, b_target = {}{} }}", kind,
                     parameters["b_init"].get<double>(), parameters["b_target"].get<double>(),
                     more);
}

void expect_near(const std::vector<float>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  double most = 0;
  for (const double x : want) most = std::max(most, std::fabs(x));
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5 * most) << i;
}

std::vector<float> as_floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

TEST_P(NoiseFile, DrawsAndScalesAsTheOracleDoes) {
  const GoldenFile golden("noise/forward");
  for (const auto& [name, parameters] : golden.cases().items()) {
    if (name == "histogram") continue;
    SCOPED_TRACE(name);
    set_key(parameters);
    const std::vector<int64_t> blocks = golden.shape(name + ".b_i");
    take("weight", {parameters["rows"], parameters["cols"]}, golden.floats(name + ".w"));
    take("b_i", blocks, golden.floats(name + ".b_i"));
    const io::Safetensors out = add_noise(recipe_of("gaussws", parameters));
    EXPECT_EQ(out.at("b_t").shape, blocks);
    EXPECT_EQ(io::to_floats(out.at("b_t")), golden.floats(name + ".b_t"));
    const std::vector<int64_t> noise = golden.integers(name + ".R");
    EXPECT_EQ(io::to_floats(out.at("noise")), std::vector<float>(noise.begin(), noise.end()));
    const std::vector<float> noisy = io::to_floats(out.at("weight_hat"));
    const std::vector<int64_t> codes = golden.integers(name + ".codes");
    const std::vector<int64_t> sure = golden.integers(name + ".sure");
    int64_t wrong = 0;
    for (size_t i = 0; i < noisy.size(); ++i)
      wrong += sure[i] != 0 && to_bf16(noisy[i]).bits != (codes[i] & 0xFFFF) ? 1 : 0;
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(report_.nonzero, parameters["nonzero_noise"]);
    EXPECT_EQ(report_.lost, parameters["nonzero_noise_lost_in_bf16"]);
  }
}

TEST_P(NoiseFile, GradientsAreTheOracles) {
  const GoldenFile golden("noise/gradients");
  const Json& parameters = golden.cases()["one"];
  for (const std::string kind : {"gaussws", "diffq"}) {
    SCOPED_TRACE(kind);
    set_key(parameters["keys"][0]);
    const std::string of = "one." + kind + ".bf16.layer0";
    const std::vector<int64_t> shape = golden.shape("one.layer0.w");
    take("weight", shape, golden.floats("one.layer0.w"));
    take("b_i", golden.shape("one.layer0.b_i"), golden.floats("one.layer0.b_i"));
    take("grad", shape, as_floats(golden.doubles(of + ".dw_hat")));
    const io::Safetensors out = add_noise(
        recipe_of(kind, parameters,
                  fmt::format(", bitwidth_loss = {}", parameters["bitwidth_loss"].get<double>())));
    expect_near(io::to_floats(out.at("grad.weight")), golden.doubles(of + ".dw_hat"));
    expect_near(io::to_floats(out.at("grad.b_t")), golden.doubles(of + ".db_t"));
    expect_near(io::to_floats(out.at("grad.b_i")), golden.doubles(of + ".db_i"));
  }
}

TEST_P(NoiseFile, NipqWithGivenNoise) {
  const GoldenFile golden("noise/rivals");
  for (const std::string name : {"nipq.", "nipq_clip."}) {
    SCOPED_TRACE(name);
    const std::vector<int64_t> shape = golden.shape(name + "w");
    take("weight", shape, golden.floats(name + "w"));
    take("noise", shape, as_floats(golden.doubles(name + "n")));
    take("grad", shape, as_floats(golden.doubles(name + "dw_hat")));
    take("alpha", {1, 1}, as_floats(golden.doubles(name + "a")));
    take("b_i", {1, 1}, as_floats(golden.doubles(name + "beta")));
    take("u_bit", {1, 1}, as_floats(golden.doubles(name + "u_bit")));
    const io::Safetensors out =
        add_noise("weight_noise = { kind = 'nipq', block = 'tensor', cast = 'fp32' }");
    expect_near(io::to_floats(out.at("weight_hat")), golden.doubles(name + "w_hat"));
    expect_near(io::to_floats(out.at("scale")), golden.doubles(name + "delta"));
    expect_near(io::to_floats(out.at("grad.weight")), golden.doubles(name + "dw"));
    expect_near(io::to_floats(out.at("grad.b_t")), golden.doubles(name + "db"));
    expect_near(io::to_floats(out.at("grad.b_i")), golden.doubles(name + "dbeta"));
    expect_near(io::to_floats(out.at("grad.alpha")), golden.doubles(name + "da"));
  }
}

TEST_P(NoiseFile, RefusesWhatDoesNotFit) {
  const std::string gaussws = "weight_noise.kind = 'gaussws'";
  const auto refusal = [&](const std::string& recipe) {
    return error_of([&] { (void)add_noise(recipe); });
  };
  take("weight", {2, 3}, std::vector<float>(6));
  EXPECT_NE(refusal("name = 'none'").find("weight_noise: gives no noise to blocks.0.mlp.up"),
            std::string::npos);
  take("weight", {2, 3}, std::vector<float>(6));
  EXPECT_NE(refusal("weight_noise = { kind = 'gaussws', layers = '*.attn.*' }").find("gives no"),
            std::string::npos);
  take("weight", {2, 3}, std::vector<float>(6));
  take("b_i", {2, 1}, std::vector<float>(2));
  EXPECT_NE(refusal(gaussws).find("b_i: has shape (2, 1): (1, 1)"), std::string::npos);
  take("weight", {2, 3}, std::vector<float>(6));
  take("b_i", {1, 1}, {std::nanf("")});
  EXPECT_NE(refusal(gaussws).find("b_i: nan at (0, 0)"), std::string::npos);
  settings_.layer = "embed";
  take("weight", {2, 3}, std::vector<float>(6));
  EXPECT_NE(refusal(gaussws).find("--layer: unknown \"embed\""), std::string::npos);
  settings_.layer = "blocks.5.mlp.up";
  settings_.blocks = 5;
  take("weight", {2, 3}, std::vector<float>(6));
  EXPECT_NE(refusal(gaussws).find("--blocks: 5 blocks have no blocks.5.mlp.up: 6 or more"),
            std::string::npos);
  settings_.blocks = 6;
  take("weight", {2, 3}, std::vector<float>(6));
  take("u_bit", {1, 1}, {0.75f});
  EXPECT_NE(refusal("weight_noise = { kind = 'nipq', block = 'tensor' }").find("u_bit: 0.75: from"),
            std::string::npos);
}

TEST_P(NoiseFile, NamesWhatItDoesNotRead) {
  take("weight", {2, 3}, std::vector<float>(6));
  take("bi", {1, 1}, {1});
  take("u_bit", {1, 1}, {0.25f});
  (void)add_noise("weight_noise.kind = 'gaussws'");
  EXPECT_EQ(report_.unread, (std::vector<std::string>{"bi", "u_bit"}));
}

// A clip of nothing has no levels, but its bits are known.
TEST_P(NoiseFile, NipqSaysItsBitsWhereNothingIsLeftToClip) {
  take("weight", {2, 3}, std::vector<float>(6));
  take("alpha", {1, 1}, {-200});
  take("b_i", {1, 1}, {0});
  take("u_bit", {1, 1}, {0.25f});
  const io::Safetensors out = add_noise("weight_noise = { kind = 'nipq', block = 'tensor' }");
  EXPECT_EQ(io::to_floats(out.at("b_t")), std::vector<float>{8});  // 2 + 12·σ(0)
}

// Zeros have no scale; widths out of all range give noise that is nothing, or not finite.
TEST_P(NoiseFile, ExtremeBitWidths) {
  take("weight", {1, 40}, std::vector<float>(40));
  io::Safetensors out = add_noise("weight_noise.kind = 'gaussws'");
  EXPECT_EQ(io::to_floats(out.at("weight_hat")), std::vector<float>(40));
  EXPECT_EQ(report_.lost, 0) << "there was nothing to lose";
  take("weight", {1, 40}, std::vector<float>(40, 1.0f));
  take("b_i", {1, 2}, {1e9f, -1e9f});
  out = add_noise("weight_noise.kind = 'gaussws'");
  const std::vector<float> scale = io::to_floats(out.at("scale"));
  EXPECT_EQ(scale[0], 0.0f);
  EXPECT_EQ(scale[1], 0x1p127f);
}

INSTANTIATE_TEST_SUITE_P(Backends, NoiseFile, testing::Values("ref", "cpu"),
                         [](const auto& of) { return std::string(of.param); });

}  // namespace
}  // namespace ng
