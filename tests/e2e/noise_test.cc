// `noise`: what a recipe's noise does to a tensor of a file.
#include <cmath>

#include "base/json.h"
#include "io/safetensors.h"
#include "program.h"

namespace ng::e2e {
namespace {

class Noise : public Program {
 protected:
  Noise() {
    std::vector<float> w(40 * 70), g(w.size());
    for (size_t i = 0; i < w.size(); ++i) w[i] = 0.1f * std::sin(0.7f * float(i * i % 977));
    for (size_t i = 0; i < g.size(); ++i) g[i] = std::cos(1.3f * float(i * i % 883));
    io::write_safetensors(
        path("in"), {{"weight", "F32", {40, 70}, w.data()}, {"grad", "F32", {40, 70}, g.data()}});
  }
  [[nodiscard]] std::vector<std::string> words(const std::string& recipe,
                                               const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args = {"noise", "in", "out", "--recipe", recipe};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
};

TEST_F(Noise, WritesNoiseScalesAndGradients) {
  const Json figures = Json::parse(run_well(words("gaussws-all", {"--json"})));
  EXPECT_EQ(figures["blocks"], 6);
  EXPECT_EQ(figures["b_t"], (Json{6.0, 6.0, 6.0}));
  EXPECT_EQ(figures["lost"], 0);
  const io::Safetensors out(path("out"));
  std::vector<std::string> names;
  for (const io::SafetensorsEntry& entry : out.entries()) names.push_back(entry.name);
  EXPECT_EQ(names, (std::vector<std::string>{"noise", "weight_hat", "scale", "b_t", "grad.weight",
                                             "grad.b_t", "grad.b_i"}));
  EXPECT_EQ(out.at("grad.b_i").shape, (std::vector<int64_t>{2, 3}));
}

TEST_F(Noise, DependsOnSeedStepAndTensorAlone) {
  const auto drawn = [&](const std::vector<std::string>& more) {
    (void)run_well(words("diffq", more));
    return io::to_floats(io::Safetensors(path("out")).at("noise"));
  };
  const std::vector<float> noise = drawn({});
  EXPECT_EQ(drawn({"--threads", "2"}), noise);
  EXPECT_EQ(drawn({"--backend", "ref"}), noise);
  EXPECT_NE(drawn({"--seed", "2"}), noise);
  EXPECT_NE(drawn({"--step", "1"}), noise);
  EXPECT_NE(drawn({"--tensor-id", "1"}), noise);
}

TEST_F(Noise, RefusesInOneLine) {
  const auto refuses = [&](const std::vector<std::string>& args,
                           const std::vector<std::string>& says) {
    expect_refused(args, 1, says);
    EXPECT_FALSE(fs::exists(path("out"))) << "nothing half-written";
  };
  refuses(words("bf16"), {"weight_noise", "gives no noise to blocks.0.mlp.up"});
  refuses(words("gaussws-qkv"), {"gives no noise"});
  refuses(words("gaussws-all", {"--layer", "head"}), {"--layer", "\"head\""});
  refuses({"noise", "none", "out", "--recipe", "diffq"}, {"none: "});
  refuses({"noise", "in", "in", "--recipe", "diffq"}, {"is the input"});
}

}  // namespace
}  // namespace ng::e2e
