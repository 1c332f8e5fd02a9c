#include "io/decoded_tensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "base/error.h"
#include "base/files.h"
#include "io/safetensors.h"

namespace ng::io {
namespace {

const std::string kGolden = NG_SOURCE_DIR "/tests/golden/interop/models/llama/";

std::vector<float> values_of(const DecodedTensor& tensor) {
  std::vector<float> all;
  tensor.read(
      [&](std::span<const float> some) { all.insert(all.end(), some.begin(), some.end()); });
  return all;
}

std::map<std::string, DecodedTensor> by_name(const std::string& in) {
  std::map<std::string, DecodedTensor> tensors;
  const DecodedModel model = decoded_tensors(in);
  for (const DecodedTensor& tensor : model.tensors) tensors.emplace(tensor.name, tensor);
  return tensors;
}

TEST(DecodedTensors, OfEveryLayoutAreWhatOthersRead) {
  const Safetensors reference(kGolden + "reference.safetensors");
  for (const std::string layout : {"nvfp4", "mxfp4", "fp8_channel", "fp8_fine", "modelopt"}) {
    const auto have = by_name(kGolden + layout);
    const Safetensors plain(kGolden + "hf/model.safetensors");
    EXPECT_EQ(have.size(), plain.entries().size()) << layout << ": no codes, no scales";
    const std::string begin = "values." + layout + ".";
    int compared = 0;
    for (const SafetensorsEntry& entry : reference.entries()) {
      if (!entry.name.starts_with(begin)) continue;
      const DecodedTensor& tensor = have.at(entry.name.substr(begin.size()));
      EXPECT_EQ(tensor.shape, entry.shape);
      EXPECT_EQ(values_of(tensor), to_floats(entry)) << entry.name;
      ++compared;
    }
    EXPECT_GT(compared, 0) << layout;
  }
}

/// A folder of gpt-oss's experts.
class Experts : public testing::Test {
 protected:
  static constexpr size_t kExperts = 2, kOut = 3, kBlocks = 2, kIn = 32 * kBlocks;

  Experts() {
    remove_all(folder_);
    make_folders(folder_);
    write_file_atomically(
        join_path(folder_, "config.json"),
        R"({"model_type": "gpt_oss", "quantization_config": {"quant_method": "mxfp4",
                              "modules_to_not_convert": ["lm_head"]}})");
    std::mt19937 draw(1);
    for (uint8_t& byte : codes_) byte = static_cast<uint8_t>(draw());
    for (uint8_t& scale : scales_) scale = static_cast<uint8_t>(120 + draw() % 12);
  }
  ~Experts() override { remove_all(folder_); }

  void write(std::vector<int64_t> shape_of_scales = {kExperts, kOut, kBlocks}) {
    write_safetensors(
        join_path(folder_, "model.safetensors"),
        {{"mlp.experts.down_proj_blocks", "U8", {kExperts, kOut, kBlocks, 16}, codes_.data()},
         {"mlp.experts.down_proj_bias", "F32", {2}, bias_},
         {"mlp.experts.down_proj_scales", "U8", std::move(shape_of_scales), scales_.data()}});
  }
  std::string refusal() {
    try {
      const DecodedModel model = decoded_tensors(folder_);
      for (const DecodedTensor& tensor : model.tensors) (void)values_of(tensor);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  const std::string folder_ = join_path(testing::TempDir(), "decoded_tensors_test");
  std::vector<uint8_t> codes_ = std::vector<uint8_t>(kExperts * kOut * kBlocks * 16);
  std::vector<uint8_t> scales_ = std::vector<uint8_t>(kExperts * kOut * kBlocks);
  float bias_[2] = {1.5f, -2};
};

TEST_F(Experts, AreTransposed) {
  write();
  const auto have = by_name(folder_);
  ASSERT_EQ(have.size(), 2u);
  EXPECT_EQ(values_of(have.at("mlp.experts.down_proj_bias")), (std::vector<float>{1.5f, -2}));
  const DecodedTensor& weight = have.at("mlp.experts.down_proj");
  EXPECT_EQ(weight.shape, (std::vector<int64_t>{kExperts, kIn, kOut}));
  const float kE2m1[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  const std::vector<float> values = values_of(weight);
  for (size_t e = 0; e < kExperts; ++e)
    for (size_t i = 0; i < kIn; ++i)
      for (size_t o = 0; o < kOut; ++o) {
        const size_t row = e * kOut + o;
        const unsigned code = codes_[row * kIn / 2 + i / 2] >> (i % 2 == 0 ? 0 : 4) & 15;
        const float magnitude = std::ldexp(kE2m1[code & 7], scales_[row * kBlocks + i / 32] - 127);
        EXPECT_EQ(values[(e * kIn + i) * kOut + o], code < 8 ? magnitude : -magnitude);
      }
}

TEST_F(Experts, NameWhatIsDamaged) {
  write({kExperts, kOut * kBlocks});
  EXPECT_NE(refusal().find("\"mlp.experts.down_proj_scales\": shape [2,6]: [2,3,2]"),
            std::string::npos)
      << refusal();
  scales_[3] = 255;
  write();
  EXPECT_NE(refusal().find("holds the scale 255"), std::string::npos) << refusal();
}

}  // namespace
}  // namespace ng::io
