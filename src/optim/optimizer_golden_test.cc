// Whole optimizers against published programs run in FP64: tests/golden/optim/{plain,adam_mini,
// muon}. Tolerances are those that tests/golden/README.md gives for FP32, far above what rounding
// the files' FP64 to FP32 takes off.
#include <gtest/gtest.h>

#include <cmath>

#include "model/weights.h"
#include "optim/optimizer.h"
#include "run/backends.h"
#include "run/transfer.h"
#include "support/golden_file.h"

namespace ng {
namespace {

using Kind = OptimizerRecipe::Kind;

float largest(std::span<const float> x) {
  float most = 0;
  for (const float v : x) most = std::max(most, std::fabs(v));
  return most;
}

/// One parameter in FP32 and its optimizer.
class Trained {
 public:
  Trained(const std::string& backend, ParameterSpec spec, Kind kind,
          const OptimizerSettings& settings)
      : run_(make_backend(backend, Threads{2}), 1) {
    OptimizerRecipe recipe = RecipeSettings().optimizer;
    recipe.kind = kind;
    optimizer_ = make_optimizer(recipe, settings);
    parameter_.spec = std::move(spec);
    parameter_.weight = claim_weight(run_, parameter_.spec, LayerRecipe().weights);
    optimizer_->claim(run_, parameter_);
    program_ = run_.record([&] { step({}, 0, 0.0f); });
    run_.reserve({&program_});
  }

  void start(std::span<const float> w) { upload(run_, parameter_.value(), w); }
  void step(std::span<const float> grad, int64_t step, float lr) {
    const GradientTarget target = gradient_target(run_, parameter_);
    upload(run_, target.view, grad);
    optimizer_->update(run_, parameter_, {.lr = lr, .step = step});
    forget_step(parameter_);
  }
  void replay(std::span<const float> grad, int64_t at, float lr) {
    run_.replay(program_, [&] { step(grad, at, lr); });
  }
  [[nodiscard]] std::vector<float> weight() const { return values(parameter_.value()); }
  [[nodiscard]] std::vector<float> moment1() const { return values(parameter_.moment1.view); }
  [[nodiscard]] std::vector<float> moment2() const { return values(parameter_.moment2.view); }

 private:
  static void upload(Run& run, const View& to, std::span<const float> values) {
    run.upload(to.as<float>().data, values);
  }
  [[nodiscard]] std::vector<float> values(const View& view) const {
    return download(run_.backend(), view);
  }

  Run run_;
  std::unique_ptr<Optimizer> optimizer_;
  Parameter parameter_;
  Program program_;
};

/// got within `most` of the values of step `shown` of `want`.
void expect_near(std::span<const float> got, const std::vector<float>& want, size_t shown,
                 float most, const std::string& what) {
  ASSERT_LE((shown + 1) * got.size(), want.size()) << what;
  float worst = 0;
  for (size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, std::fabs(got[i] - want[shown * got.size() + i]));
  EXPECT_LE(worst, most) << what << ", shown " << shown;
}

/// What a weight has moved by at most, from w0 to the values of step `shown`.
float largest_change(std::span<const float> w0, const std::vector<float>& w, size_t shown) {
  float most = 0;
  for (size_t i = 0; i < w0.size(); ++i)
    most = std::max(most, std::fabs(w[shown * w0.size() + i] - w0[i]));
  return most;
}

ParameterSpec spec_of(const std::string& name, const std::vector<int64_t>& shape) {
  ParameterSpec spec;
  spec.name = name;
  spec.is_vector = shape.size() == 1;
  spec.rows = spec.is_vector ? 1 : shape[0];
  spec.cols = shape.back();
  return spec;
}

OptimizerSettings settings_of(const Json& parameters) {
  return {.beta1 = parameters.value("beta1", parameters.value("momentum", 0.9f)),
          .beta2 = parameters.value("beta2", 0.95f),
          .eps = parameters.value("eps", 1e-8f),
          .weight_decay = parameters.value("weight_decay", 0.0f),
          .heads = parameters.value("heads", 1),
          .kv_heads = parameters.value("kv_heads", 1)};
}

class OptimizerGolden : public ::testing::TestWithParam<std::string_view> {
 protected:
  [[nodiscard]] std::string backend() const { return std::string(GetParam()); }

  /// Runs all steps of a parameter; names the states after the steps of `shown`.
  void follow(const GoldenFile& golden, const std::string& prefix, const std::string& name,
              Kind kind, const Json& parameters, const std::vector<int64_t>& shown,
              std::string_view first_moment, bool has_second) {
    SCOPED_TRACE(prefix);
    const std::vector<float> w0 = golden.floats(prefix + ".w0");
    const std::vector<float> grads = golden.floats(prefix + ".grads");
    const std::vector<float> w = golden.floats(prefix + ".w");
    const std::string of_first = fmt::format("{}.{}", prefix, first_moment);
    Trained trained(backend(), spec_of(name, golden.shape(prefix + ".w0")), kind,
                    settings_of(parameters));
    trained.start(w0);
    const int64_t steps = parameters["steps"];
    size_t next = 0;
    for (int64_t step = 0; step < steps; ++step) {
      const auto size = static_cast<int64_t>(w0.size());
      trained.replay({grads.data() + step * size, w0.size()}, step, parameters["lr"]);
      if (next == shown.size() || shown[next] != step + 1) continue;
      expect_near(trained.weight(), w, next, 1e-6f + 3e-5f * largest_change(w0, w, next), "w");
      if (golden.has(of_first)) {
        const std::vector<float> m = golden.floats(of_first);
        expect_near(trained.moment1(), m, next, 5e-5f * largest(m), "m");
      }
      if (has_second) {
        const std::vector<float> v = golden.floats(prefix + ".v");
        EXPECT_EQ(trained.moment2().size() * shown.size(), v.size());
        expect_near(trained.moment2(), v, next, 5e-5f * largest(v), "v");
      }
      ++next;
    }
    EXPECT_EQ(next, shown.size());
  }
};

TEST_P(OptimizerGolden, AdamWAndSgd) {
  const GoldenFile golden("optim/plain");
  for (const std::string name : {"adamw", "adamw_vector", "adamw_b_i", "sgd"}) {
    const Json& parameters = golden.cases()[name];
    const bool is_sgd = name == "sgd";
    follow(golden, name, "embed.weight", is_sgd ? Kind::sgd : Kind::adamw, parameters,
           parameters["shown"], is_sgd ? "momentum" : "m", !is_sgd);
  }
}

TEST_P(OptimizerGolden, AdamMini) {
  const GoldenFile golden("optim/adam_mini");
  int followed = 0;
  for (const auto& [model, parameters] : golden.cases().items())
    for (const io::SafetensorsEntry& entry : golden.entries()) {
      const std::string& tensor = entry.name;
      const std::string start = model + ".", end = ".w0";
      if (!tensor.starts_with(start) || !tensor.ends_with(end)) continue;
      const std::string layer =
          tensor.substr(start.size(), tensor.size() - start.size() - end.size());
      if (layer == "value_whole") continue;  // one block for all values is nobody's choice here
      const bool is_weight = !layer.ends_with(".bias") && !layer.ends_with(".b_i");
      Json with = parameters;
      if (layer.ends_with(".b_i")) with["weight_decay"] = 0;  // it ran as a bias
      follow(golden, start + layer, is_weight ? layer + ".weight" : layer, Kind::adam_mini, with,
             parameters["shown"], "m", true);
      ++followed;
    }
  EXPECT_GE(followed, 20);
}

TEST_P(OptimizerGolden, Muon) {
  const GoldenFile golden("optim/muon");
  for (const auto& [name, parameters] : golden.cases().items()) {
    SCOPED_TRACE(name);
    const std::string prefix = name + ".";
    const std::vector<float> w0 = golden.floats(prefix + "w0");
    const std::vector<float> grads = golden.floats(prefix + "grads");
    const std::vector<float> w = golden.floats(prefix + "w"), b = golden.floats(prefix + "B");
    const int64_t steps = parameters["steps"];
    Trained trained(backend(), spec_of("blocks.0.mlp.up.weight", golden.shape(prefix + "w0")),
                    Kind::muon, settings_of(parameters));
    trained.start(w0);
    for (int64_t step = 0; step < steps; ++step) {
      const auto size = static_cast<int64_t>(w0.size());
      trained.replay({grads.data() + step * size, w0.size()}, step, parameters["lr"]);
      if (step == 0 || step == steps - 1)
        expect_near(trained.moment1(), b, step == 0 ? 0 : 1, 5e-5f * largest(b), "B");
      const size_t shown = step < 2 ? static_cast<size_t>(step) : 2;
      if (step < 2 || step == steps - 1)
        expect_near(trained.weight(), w, shown, 1e-4f * largest_change(w0, w, shown) + 1e-7f, "w");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, OptimizerGolden, ::testing::Values("ref", "cpu"),
                         [](const auto& backend) { return std::string(backend.param); });

}  // namespace
}  // namespace ng
