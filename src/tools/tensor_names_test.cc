// Tensors that a user names, of files, folders, models and runs, where update, noise and reduce
// read a weight and gradients.
#include <gtest/gtest.h>

#include <cmath>

#include "comm/launch.h"
#include "io/hf/folder.h"
#include "support/hf_models.h"
#include "support/tensor_files.h"
#include "tools/noise_file.h"
#include "tools/reduce_file.h"
#include "tools/tensor_layer.h"
#include "tools/update_file.h"

namespace ng {
namespace {

constexpr int64_t kTestRows = 6, kTestCols = 40;

std::vector<float> named_wave(float pace, size_t count = kTestRows * kTestCols) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = 0.1f * std::sin(pace * float(i * i % 977));
  return values;
}

std::vector<float> both(std::vector<float> a, const std::vector<float>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class TensorsByName : public TensorFiles {
 protected:
  void SetUp() override {
    TensorFiles::SetUp();
    take("weight", {kTestRows, kTestCols}, named_wave(0.7f));
    take("grad", {2, kTestRows, kTestCols}, both(named_wave(1.3f), named_wave(1.9f)));
    write_taken(in("plain"));
    take("blocks.1.mlp.down.weight", {kTestRows, kTestCols}, named_wave(0.7f));
    take("first", {kTestRows, kTestCols}, named_wave(1.3f));
    take("second", {kTestRows, kTestCols}, named_wave(1.9f));
    take("vector", {kTestCols}, named_wave(0.7f, kTestCols));
    write_taken(in("named"));
  }
  [[nodiscard]] std::vector<float> out(const std::string& name) const {
    return io::to_floats(io::Safetensors(in("out")).at(name));
  }
  UpdateFileReport update(const std::string& from, const TensorNames& names,
                          const std::string& recipe =
                              "weights.storage = 'bf16'\n"
                              "weights.update = 'stochastic'") {
    UpdateFileSettings settings;
    settings.tensors = names;
    return update_file(from, in("out"), Recipe::parse(recipe, "r.toml"), settings,
                       [](int64_t, int64_t) {});
  }
};

TEST_F(TensorsByName, UpdateTakesThemAsTheFileOfThatShape) {
  (void)update(in("plain"), {});
  const std::vector<float> want = out("step2.weight");
  const TensorNames names = {{"weight", {"blocks.1.mlp.down.weight"}},
                             {"grad", {"first", "second"}}};
  const UpdateFileReport report = update(in("named"), names);
  EXPECT_EQ(out("step2.weight"), want);
  EXPECT_EQ(report.steps.size(), 2u);
  EXPECT_EQ(report.parameter, "blocks.1.mlp.down.weight") << "by the tensor's name";
  // The gradient lies in another file than the weight.
  const TensorNames apart = {{"grad", {in("named") + ":first", "second"}},
                             {"weight", {in("plain") + ":weight"}}};
  EXPECT_EQ(update(in("named"), apart).parameter, "blocks.0.mlp.up.weight");
  EXPECT_EQ(out("step2.weight"), want);
  const UpdateFileReport one =
      update(in("named"), {{"weight", {"blocks.1.mlp.down.weight"}}, {"direction", {"first"}}});
  EXPECT_EQ(one.steps.size(), 1u);
  const TensorNames vector = {{"weight", {"vector"}}, {"grad", {"vector"}}};
  EXPECT_EQ(update(in("named"), vector, "").rows, 1) << "a vector is one row";
}

TEST_F(TensorsByName, OverridesAreThoseOfTheNamedLayer) {
  const std::string recipe =
      "[[override]]\nlayers = ['blocks.1.mlp.down']\nweights.storage = 'bf16'";
  const auto stored = [&](const std::string& weight) {
    return update(in("named"), {{"weight", {weight}}, {"grad", {"first"}}}, recipe).stored.at(0);
  };
  EXPECT_EQ(stored("blocks.1.mlp.down.weight"), "weight bf16");
  EXPECT_EQ(stored("second"), "weight fp32");
}

TEST_F(TensorsByName, NoiseAndReduceTakeThemToo) {
  const Recipe noisy = Recipe::parse("weight_noise.kind = 'gaussws'", "r.toml");
  NoiseFileSettings noise;
  take("weight", {kTestRows, kTestCols}, named_wave(0.7f));
  take("grad", {kTestRows, kTestCols}, named_wave(1.3f));
  write_taken(in("pair"));
  (void)noise_file(in("pair"), in("out"), noisy, noise);
  const std::vector<float> want = out("weight_hat"), gradient = out("grad.weight");
  noise.tensors = {{"weight", {"blocks.1.mlp.down.weight"}}, {"grad", {"first"}}};
  const NoiseFileReport made = noise_file(in("named"), in("out"), noisy, noise);
  EXPECT_EQ(out("weight_hat"), want);
  EXPECT_EQ(out("grad.weight"), gradient);
  EXPECT_EQ(made.parameter, "blocks.1.mlp.down.weight");
  EXPECT_TRUE(made.unread.empty()) << "nothing is asked of tensors that nobody named";

  remove_all(in("out"));
  const Recipe wire = Recipe::parse("gradient.communicate = 'fp8_e4m3'", "r.toml");
  ReduceFileSettings reduce;
  EXPECT_EQ(reduce_file(in("plain"), in("out"), wire, reduce, world()).unread,
            std::vector<std::string>{"weight"});
  const std::vector<float> mean = out("mean");
  reduce.tensors = {{"grad", {"first", "second"}}};
  const ReduceFileReport reduced = reduce_file(in("named"), in("out"), wire, reduce, world());
  EXPECT_EQ(reduced.ranks, 2);
  EXPECT_EQ(out("mean"), mean);
}

TEST_F(TensorsByName, SayWhatIsWrongWithThem) {
  const auto expect = [&](const TensorNames& names, const char* says) {
    const std::string error = error_of([&] { (void)update(in("named"), names); });
    EXPECT_NE(error.find(says), std::string::npos) << error;
    EXPECT_FALSE(is_file(in("out")));
  };
  expect({{"weight", {"frist"}}}, "did you mean \"first\"?");
  expect({{"weight", {"steps.vector"}}}, "no such tensor: the file has \"vector\", ");
  expect({{"weight", {"first"}}}, "--grad NAME");
  expect({{"weight", {"first"}}, {"grad", {"vector"}}}, "vector: has shape (40)");
  expect({{"weight", {"first"}}, {"grad", {"first", "vector"}}}, "(steps, 6, 40)");
  expect({{"weight", {"first"}}, {"grad", {in("absent") + ":first"}}}, "no such tensor");
}

TEST_F(TensorsByName, AreFoundInFoldersModelsAndRuns) {
  make_folders(in("run/model"));
  take("a", {2}, {1, 2});
  write_taken(in("run/model/one.safetensors"));
  EXPECT_EQ(io::to_floats(io::NamedTensors(in("run")).at("a")), (std::vector<float>{1, 2}));
  EXPECT_EQ(io::to_floats(io::NamedTensors(in("plain")).at(in("run/model") + ":a")),
            (std::vector<float>{1, 2}));
  take("a", {1}, {3});
  write_taken(in("run/model/two.safetensors"));
  const std::string error = error_of([&] { (void)io::NamedTensors(in("run")).at("a"); });
  EXPECT_NE(error.find("one.safetensors and in"), std::string::npos) << error;
  // Before there is a model, the newest checkpoint.
  make_folders(in("young/checkpoints/step-00000004"));
  make_folders(in("young/checkpoints/step-00000008"));
  for (const char* step : {"4", "8"}) {
    take("w", {1}, {std::stof(step)});
    write_taken(in(fmt::format("young/checkpoints/step-0000000{}/state.safetensors", step)));
  }
  EXPECT_EQ(io::to_floats(io::NamedTensors(in("young")).at("w")), (std::vector<float>{8}));
}

TEST_F(TensorsByName, ParametersAreKnownByWhatTransformersCallsThem) {
  const ModelConfig config = io::tiny_gpt2(true);
  io::Parameters parameters(config);
  parameters.fill();
  io::write_hf_folder(in("gpt2"), config, parameters.reader());
  const io::NamedTensors model(in("gpt2"));
  ParameterNames names;
  const NamedParameter up = names.of(model.at("transformer.h.0.mlp.c_fc.weight"));
  EXPECT_EQ(up.name, "blocks.0.mlp.up.weight");
  EXPECT_EQ(up.blocks, config.layers);
  EXPECT_TRUE(up.is_turned) << "GPT-2's Conv1D";
  EXPECT_EQ(names.of(model.at("transformer.wte.weight")).name, "embed.weight");
  const auto name_of = [&](const std::string& tensor) {
    io::SafetensorsEntry entry = io::NamedTensors(in("plain")).at("weight");
    entry.name = tensor;
    return names.of(entry).name;
  };
  EXPECT_EQ(name_of("step12.blocks.1.attn.q.weight"), "blocks.1.attn.q.weight");
  EXPECT_EQ(name_of("weight.blocks.1.attn.q.weight"), "blocks.1.attn.q.weight");
  EXPECT_EQ(name_of("grad.head.weight"), "head.weight");
  EXPECT_EQ(name_of("blocks.1.attn.q.x"), "");
  EXPECT_EQ(name_of("step.blocks.1.attn.q.weight"), "");
}

}  // namespace
}  // namespace ng
