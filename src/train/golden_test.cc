// Logits, loss, gradients and AdamW steps of the tiny reference models against PyTorch's, within
// the tolerances of tests/golden/README.md, on every backend.
#include <gtest/gtest.h>

#include <cmath>

#include "io/safetensors.h"
#include "run/backends.h"
#include "train/trainer.h"

namespace ng {
namespace {

struct Case {
  const char* model;
  const char* backend;
};

ModelConfig tiny_config(std::string_view name) {
  ModelConfig c;
  c.vocab = 128;
  c.layers = 2;
  c.heads = 4;
  c.head_dim = 16;
  c.width = 64;
  if (name == "gpt2_tiny") {
    c.architecture = Architecture::gpt2;
    c.kv_heads = 4;
    c.ffn = 256;
    c.context = 32;
    c.attention_bias = c.mlp_bias = c.norm_bias = true;
  } else {
    c.kv_heads = 2;
    c.ffn = 160;
    c.context = 64;
    c.tie_embeddings = false;
  }
  return c;
}

std::string golden(std::string_view model, std::string_view file) {
  return fmt::format("{}/tests/golden/models/{}/{}", NG_SOURCE_DIR, model, file);
}

// A parameter as the file stores it: matrices of GPT-2's linear layers transposed.
std::vector<float> as_stored(const Parameter& p) {
  const View v = p.value;
  std::vector<float> out(static_cast<size_t>(v.size()));
  for (int64_t r = 0; r < v.rows; ++r)
    for (int64_t c = 0; c < v.cols; ++c)
      out[static_cast<size_t>(p.spec.hf_transposed ? c * v.rows + r : r * v.cols + c)] =
          v.row(r)[c];
  return out;
}

void load(std::span<Parameter> parameters, const io::Safetensors& file) {
  for (Parameter& p : parameters) {
    const std::vector<float> values = io::to_floats(file.at(p.spec.hf_name));
    const View v = p.value;
    ASSERT_EQ(static_cast<int64_t>(values.size()), v.size()) << p.spec.hf_name;
    for (int64_t r = 0; r < v.rows; ++r)
      for (int64_t c = 0; c < v.cols; ++c)
        v.row(r)[c] =
            values[static_cast<size_t>(p.spec.hf_transposed ? c * v.rows + r : r * v.cols + c)];
  }
}

class Golden : public ::testing::TestWithParam<Case> {
 protected:
  Golden()
      : reference_(golden(GetParam().model, "reference.safetensors")),
        weights_(golden(GetParam().model, "model.safetensors")),
        recipe_(Recipe::parse("name = \"fp32\"", "test")),
        run_(make_backend(GetParam().backend, Threads{2}), 1),
        model_(run_, tiny_config(GetParam().model), recipe_, RecomputePolicy::none),
        tokens_(io::to_integers(reference_.at("tokens"))),
        shape_(reference_.at("tokens").shape) {
    load(model_.parameters(), weights_);
  }

  [[nodiscard]] StepSettings settings() const {
    StepSettings settings;
    settings.sequences = shape_[1];
    settings.length = shape_[2] - 1;
    return settings;
  }
  void fill(int64_t step, const TokenBuffers& to) const {
    const int64_t width = shape_[2];
    size_t i = 0;
    for (int64_t s = 0; s < shape_[1]; ++s)
      for (int64_t t = 0; t + 1 < width; ++t, ++i) {
        const auto at = static_cast<size_t>((step * shape_[1] + s) * width + t);
        to.inputs[i] = static_cast<int32_t>(tokens_[at]);
        to.targets[i] = static_cast<int32_t>(tokens_[at + 1]);
      }
  }
  void expect_parameters(const std::string& prefix) {
    for (const Parameter& p : model_.parameters()) {
      const std::vector<float> want = io::to_floats(reference_.at(prefix + p.spec.hf_name));
      const std::vector<int64_t> ok = io::to_integers(reference_.at("step3_ok." + p.spec.hf_name));
      const std::vector<float> have = as_stored(p);
      for (size_t i = 0; i < want.size(); ++i) {
        if (ok[i] == 0) continue;
        ASSERT_NEAR(have[i], want[i], 2e-5) << prefix << p.spec.hf_name << ' ' << i;
      }
    }
  }

  io::Safetensors reference_, weights_;
  Recipe recipe_;
  ng::Run run_;
  Model model_;
  std::vector<int64_t> tokens_;
  std::vector<int64_t> shape_;
};

TEST_P(Golden, ThreeAdamWStepsGiveTheWeightsOfPyTorch) {
  Trainer trainer(run_, model_, recipe_, settings());
  const std::vector<float> losses = io::to_floats(reference_.at("train.loss"));
  const std::vector<float> norms = io::to_floats(reference_.at("train.grad_norm"));
  for (int64_t step = 0; step < 3; ++step) {
    fill(step, trainer.train_tokens(0));
    const StepReport report = trainer.step(step, 1e-3f);
    EXPECT_FALSE(report.skipped);
    EXPECT_NEAR(report.loss, losses[static_cast<size_t>(step)], 1e-5);
    EXPECT_NEAR(report.grad_norm / norms[static_cast<size_t>(step)], 1.0, 1e-4);
    if (step == 0) expect_parameters("step1.");
    if (step == 2) expect_parameters("step3.");
  }
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  return fmt::format("{}_{}", info.param.model, info.param.backend);
}

INSTANTIATE_TEST_SUITE_P(Models, Golden,
                         ::testing::Values(Case{"gpt2_tiny", "ref"}, Case{"gpt2_tiny", "cpu"},
                                           Case{"llama_tiny", "ref"}, Case{"llama_tiny", "cpu"}),
                         case_name);

}  // namespace
}  // namespace ng
