#include "io/hf/quantized_layout.h"

#include "support/scratch_folder.h"

namespace ng::io {
namespace {

class QuantizedLayouts : public ScratchFolder {
 protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    make_folders(folder_);
  }
  /// Of config.json, and of hf_quant_config.json where there is one.
  [[nodiscard]] QuantizedLayout read(const Json& config, const Json& modelopt = {}) const {
    write_file_atomically(in("config.json"), json_text(config));
    if (!modelopt.is_null()) write_file_atomically(in("hf_quant_config.json"), json_text(modelopt));
    return read_quantized_layout(folder_);
  }
  [[nodiscard]] std::string said(const Json& config, const Json& modelopt = {}) const {
    const std::string text = error_of([&] { (void)read(config, modelopt); });
    return text.starts_with(folder_) ? text.substr(folder_.size() + 1) : text;
  }
};

const Json kPlain = {{"model_type", "llama"}};

TEST_F(QuantizedLayouts, OfModelOptLieInAFileOfTheirOwn) {
  EXPECT_FALSE(read(kPlain).is_quantized);
  const auto of = [&](const Json& algorithm) -> Json {
    return {{"producer", {{"name", "modelopt"}}},
            {"quantization", {{"quant_algo", algorithm}, {"kv_cache_quant_algo", "FP8"}}}};
  };
  EXPECT_TRUE(read(kPlain, of("FP8")).is_quantized);
  EXPECT_TRUE(read(kPlain, of("NVFP4")).blocks.empty());
  EXPECT_FALSE(read(kPlain, of(nullptr)).is_quantized) << "the KV cache alone";
  EXPECT_EQ(read(kPlain, of("fp8_pb_wo")).blocks, (std::vector<ScaleBlock>{{128, 128}}));
  EXPECT_TRUE(said(kPlain, of("W4A8_AWQ"))
                  .starts_with("hf_quant_config.json: quantization.quant_algo: \"W4A8_AWQ\" is not "
                               "supported: FP8, FP8_PER_CHANNEL_PER_TOKEN, "));
  EXPECT_NE(said(kPlain, {{"quant_algo", "FP8"}}).find("quantization: missing"), std::string::npos);
  Json own = kPlain;
  own["quantization_config"] = {{"quant_method", "fp8"}, {"weight_block_size", {16, 8}}};
  EXPECT_EQ(read(own, of("W4A8_AWQ")).blocks, (std::vector<ScaleBlock>{{16, 8}}))
      << "config.json goes first";
}

TEST_F(QuantizedLayouts, OfEachMethod) {
  const auto config = [](const Json& quantization) -> Json {
    return {{"quantization_config", quantization}};
  };
  const auto group = [](const char* format, const Json& weights) -> Json {
    return {{"format", format}, {"weights", weights}};
  };
  const Json block = {{"strategy", "block"}, {"block_structure", {4, 2}}};
  const Json groups = {{"a", group("float-quantized", block)},
                       {"b", group("naive-quantized", {{"strategy", "group"}, {"group_size", 8}})},
                       {"c", {{"weights", nullptr}}}};
  const auto compressed = [&](const char* format, const Json& of_groups) {
    return config(
        {{"quant_method", "compressed-tensors"}, {"format", format}, {"config_groups", of_groups}});
  };
  const std::vector<ScaleBlock> blocks = {{4, 2}, {1, 8}};
  EXPECT_EQ(read(compressed("mixed-precision", groups)).blocks, blocks);
  EXPECT_EQ(read({{"compression_config",
                   compressed("float-quantized", groups).at("quantization_config")}})
                .blocks,
            blocks)
      << "older files";
  EXPECT_TRUE(read(config({{"quant_method", "fbgemm_fp8"}})).is_quantized);
  EXPECT_TRUE(read(config({{"quant_method", "fp8"}})).blocks.empty()) << "one scale";
  EXPECT_TRUE(read(config({{"quant_method", "mxfp4"}})).has_experts);
  EXPECT_TRUE(read(config({{"quant_algo", "FP8"}})).is_quantized);
  const std::string at = "config.json: quantization_config.";
  EXPECT_EQ(said(compressed("mixed-precision", {{"a", {{"weights", block}}}})),
            at + "config_groups.a.format: missing: a string");
  EXPECT_TRUE(said(compressed("mixed-precision", {{"a", group("pack-quantized", block)}}))
                  .starts_with(at + "config_groups.a.format: \"pack-quantized\" is not supported"));
  EXPECT_EQ(said(compressed("naive-quantized", {{"a", {{"weights", {{"type", "int"}}}}}})),
            at + "config_groups.a.weights.type: \"int\" is not supported: \"float\"");
  EXPECT_NE(said(compressed(
                "float-quantized",
                {{"a", group("float-quantized", {{"strategy", "group"}, {"group_size", 0}})}})),
            "accepted");
  EXPECT_NE(said(config({{"quant_method", "fp8"}, {"weight_block_size", {0, 8}}})), "accepted");
}

}  // namespace
}  // namespace ng::io
