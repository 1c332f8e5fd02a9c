// Adapters against PEFT's: logits, loss and gradients of A and B, merged weights, and the folder
// that is written, on every backend. Tolerances are those of tests/golden/README.md for models.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "base/files.h"
#include "base/json.h"
#include "io/hf/folder.h"
#include "io/hf/peft_folder.h"
#include "io/model_files.h"
#include "io/safetensors.h"
#include "model/adapters.h"
#include "run/backends.h"
#include "tokenizer/byte_tokenizer.h"
#include "tools/trace.h"
#include "train/run_model.h"

namespace ng {
namespace {

const std::string kGolden = std::string(NG_SOURCE_DIR) + "/tests/golden/";

// What adapter_config.json says, in our layers' names.
Lora lora_of(const std::string& model) {
  if (model == "gpt2_tiny") return {.rank = 2, .alpha = 5, .targets = {"attn.qkv", "attn.out"}};
  return {.rank = 3, .alpha = 6, .targets = {"attn.q", "attn.v", "attn.out", "mlp.up", "mlp.down"}};
}

class LoraGolden : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  LoraGolden()
      : model_name_(std::get<0>(GetParam())),
        peft_(folder() + "/adapter_model.safetensors"),
        reference_(folder() + "/reference.safetensors"),
        run_(make_backend(std::get<1>(GetParam()), Threads{2}), 1),
        model_(run_, config(), recipe_, RecomputePolicy::none) {
    const auto write = [&](size_t index, int64_t row, std::span<const float> values) {
      model_.write_row(run_, index, row, values);
    };
    io::read_hf_weights(base(), model_.config(), write);
    const std::span<const Parameter> all = model_.parameters();
    for (size_t i = 0; i < all.size(); ++i) {
      const ParameterSpec& spec = all[i].spec;
      if (!spec.is_adapter) continue;
      const std::vector<float> values = io::to_floats(peft_.at(spec.hf_name));
      const auto cols = static_cast<size_t>(spec.cols);
      for (int64_t r = 0; r < spec.rows; ++r)
        write(i, r, std::span(values).subspan(static_cast<size_t>(r) * cols, cols));
    }
    out_ = std::filesystem::temp_directory_path() / fmt::format("ng-lora-{}", ::getpid());
    remove_all(out_);
  }
  ~LoraGolden() override { remove_all(out_); }

  [[nodiscard]] std::string folder() const { return kGolden + "lora/" + model_name_; }
  [[nodiscard]] std::string base() const { return kGolden + "models/" + model_name_; }
  [[nodiscard]] ModelConfig config() const {
    ModelConfig config = io::read_hf_config(base());
    config.lora = lora_of(model_name_);
    return config;
  }
  [[nodiscard]] RunConfig run_file(const std::string& save) const {
    return RunConfig::parse("lora.rank = 3\n", "test",
                            std::vector<std::string>{"model.init=" + base(), "lora.save=" + save});
  }

  std::string model_name_;
  io::Safetensors peft_, reference_;
  Recipe recipe_ = Recipe::parse("name = \"fp32\"", "test");
  ng::Run run_;
  Model model_;
  std::string out_;
};

TEST_P(LoraGolden, LogitsLossAndGradientsAreThoseOfPeft) {
  write_trace(run_, model_, recipe_, folder() + "/reference.safetensors", out_, {});
  const io::Safetensors traced(out_);
  size_t gradients = 0;
  for (const io::SafetensorsEntry& wanted : reference_.entries()) {
    if (wanted.name == "tokens" || wanted.name.starts_with("merged.")) continue;
    const std::vector<float> want = io::to_floats(wanted);
    const std::vector<float> have = io::to_floats(traced.at(wanted.name));
    ASSERT_EQ(traced.at(wanted.name).shape, wanted.shape) << wanted.name;
    float largest = 0;
    for (const float x : want) largest = std::max(largest, std::fabs(x));
    const bool is_gradient = wanted.name.starts_with("grad.");
    gradients += is_gradient ? 1 : 0;
    double tolerance = wanted.name == "loss" ? 1e-5 : 1e-4;
    if (is_gradient) tolerance = 1e-5 * largest + 1e-8;
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(have[i], want[i], tolerance) << wanted.name << " " << i;
  }
  EXPECT_EQ(gradients, peft_.entries().size()) << "of every A and B";
  for (const io::SafetensorsEntry& entry : traced.entries())
    if (entry.name.starts_with("grad.")) {
      EXPECT_NE(reference_.find(entry.name), nullptr) << entry.name << ": frozen";
    }
}

// FP32's sum of rank products and of the weight: each off by 2^-24 of the magnitudes added.
TEST_P(LoraGolden, MergedWeightsAreThoseOfPeft) {
  MergedWeights merged(run_, model_);
  size_t compared = 0;
  for (size_t i = 0; i < model_.parameters().size(); ++i) {
    const ParameterSpec& spec = model_.parameters()[i].spec;
    const io::SafetensorsEntry* wanted = reference_.find("merged." + spec.hf_name);
    if (wanted == nullptr) continue;
    const std::vector<float> want = io::to_floats(*wanted);
    std::vector<float> row(static_cast<size_t>(spec.cols));
    for (int64_t r = 0; r < spec.rows; ++r) {
      merged.read_row(i, r, row);
      for (int64_t c = 0; c < spec.cols; ++c, ++compared) {
        const float w =
            want[static_cast<size_t>(spec.hf_transposed ? c * spec.rows + r : r * spec.cols + c)];
        const double terms = static_cast<double>(config().lora.rank) + 3;
        ASSERT_NEAR(row[static_cast<size_t>(c)], w, terms * 0x1p-24 * 4) << spec.name;
      }
    }
  }
  EXPECT_GT(compared, 0u);
}

TEST_P(LoraGolden, TheFolderIsWhatPeftWrites) {
  const ByteTokenizer tokenizer;
  write_run_model(out_, run_file("adapter"), run_, model_, tokenizer);
  const io::Safetensors written(join_path(out_, io::kPeftWeights));
  EXPECT_EQ(written.entries().size(), peft_.entries().size());
  for (const io::SafetensorsEntry& wanted : peft_.entries()) {
    ASSERT_NE(written.find(wanted.name), nullptr) << wanted.name;
    EXPECT_EQ(written.at(wanted.name).shape, wanted.shape) << wanted.name;
    EXPECT_EQ(io::to_floats(written.at(wanted.name)), io::to_floats(wanted)) << wanted.name;
  }
  const Json have = parse_json(read_file(join_path(out_, io::kPeftConfig), 10000), out_);
  const Json want = parse_json(read_file(folder() + "/adapter_config.json", 10000), folder());
  for (const auto& [key, value] : have.items())
    if (key == "base_model_name_or_path")
      EXPECT_EQ(value, base());
    else
      EXPECT_EQ(value, want.at(key)) << key;
  EXPECT_TRUE(is_file(join_path(out_, "tokenizer.json")));
  const ModelConfig sizes = io::read_model_config(out_);
  EXPECT_EQ(sizes, io::read_hf_config(base()));
  MergedWeights merged(run_, model_);
  std::vector<float> row;
  io::copy_parameters(sizes, io::open_model_weights(out_, sizes),
                      [&](size_t index, int64_t r, std::span<const float> values) {
                        row.resize(values.size());
                        merged.read_row(index, r, row);
                        ASSERT_TRUE(std::equal(row.begin(), row.end(), values.begin()));
                      });
  EXPECT_FALSE(is_file(join_path(out_, "config.json")));
  write_run_model(out_, run_file("merged"), run_, model_, tokenizer);  // replaces it whole
  EXPECT_EQ(io::read_hf_config(out_), io::read_hf_config(base()));
  EXPECT_FALSE(is_file(join_path(out_, io::kPeftConfig)));
}

std::string lora_case_name(const ::testing::TestParamInfo<LoraGolden::ParamType>& info) {
  return std::get<0>(info.param) + "_" + std::get<1>(info.param);
}
INSTANTIATE_TEST_SUITE_P(Models, LoraGolden,
                         ::testing::Combine(::testing::Values("qwen2_tiny", "gpt2_tiny"),
                                            ::testing::Values("ref", "cpu")),
                         lora_case_name);

}  // namespace
}  // namespace ng
