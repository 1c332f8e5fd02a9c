// Folders of trained weights that are quantized in part, and folders of several shards.
#include "io/hf/export.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/files.h"
#include "base/json.h"
#include "io/gguf/export.h"
#include "io/gguf/gguf.h"
#include "io/model_files.h"
#include "io/safetensors.h"
#include "support/hf_models.h"
#include "support/scratch_folder.h"

namespace ng {
namespace {

class ExportHf : public ScratchFolder {
 protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    make_folders(folder_);
    ModelConfig config = io::tiny_llama();
    config.width = config.ffn = 64;
    config.head_dim = 16;
    config.attention_bias = config.mlp_bias = false;
    io::Parameters parameters(config);
    parameters.fill();
    io::write_hf_folder(in("model"), config, parameters.reader());
  }

  /// Numbers of a recipe whose second block is as `linear` says.
  [[nodiscard]] TrainedNumbers mixed(const std::string& linear) const {
    const std::string text = fmt::format(
        "name = \"mixed\"\ninherit = \"nvfp4-all\"\noverride = [{{ blocks = \"1:\", linear = "
        "\"{}\" }}]\n",
        linear);
    write_file_atomically(in("mixed.toml"), text);
    return {.recipe = Recipe::load(in("mixed.toml")), .shown = "recipe mixed"};
  }
  [[nodiscard]] HfExport request(const std::string& type) const {
    return {.model = in("model"),
            .out = in(type),
            .type = type,
            .block = {},
            .trained = {},
            .threads = {}};
  }
};

std::map<std::string, std::string> dtypes_of(const std::string& folder) {
  std::map<std::string, std::string> dtypes;
  const io::Safetensors file(join_path(folder, "model.safetensors"));
  for (const io::SafetensorsEntry& entry : file.entries()) dtypes[entry.name] = entry.dtype;
  return dtypes;
}

const std::string kSecond = "model.layers.1.self_attn.q_proj";

TEST_F(ExportHf, LeavesWideWhatTheRecipeDoes) {
  HfExport wanted = request("nvfp4");
  wanted.trained = mixed("bf16");
  const std::vector<std::string> notes = export_hf(wanted);
  ASSERT_EQ(notes.size(), 3u);
  EXPECT_EQ(notes[1],
            "7 matrices that the recipe does not quantize are BF16: config.json names them as "
            "ignored");
  EXPECT_EQ(notes[2], "fprop's weight of " + kSecond +
                          ".weight and 6 others is bf16: its codes are BF16 numbers");
  const auto dtypes = dtypes_of(wanted.out);
  EXPECT_EQ(dtypes.at(kSecond + ".weight"), "BF16");
  EXPECT_EQ(dtypes.at("model.layers.0.self_attn.q_proj.weight_packed"), "U8");
  const Json config = read_json_file(join_path(wanted.out, "config.json"), 1 << 20);
  const Json& ignored = config.at("quantization_config").at("ignore");
  ASSERT_EQ(ignored.size(), 8u);
  EXPECT_EQ(ignored[0], "lm_head");
  EXPECT_EQ(ignored[1], kSecond);
  EXPECT_EQ(ignored[7], "model.layers.1.mlp.down_proj");
  const io::Safetensors plain(in("model/model.safetensors"));
  const io::Safetensors have(join_path(wanted.out, "model.safetensors"));
  EXPECT_EQ(io::to_floats(have.at(kSecond + ".weight")),
            io::to_floats(plain.at(kSecond + ".weight")));
  EXPECT_EQ(io::all_values(wanted.out).size(), io::all_values(in("model")).size());
}

TEST_F(ExportHf, EveryLayoutNamesWhatIsWide) {
  const auto ignored = [&](const std::string& type, const char* key) {
    HfExport wanted = request(type);
    wanted.trained = mixed("bf16");
    (void)export_hf(wanted);
    const Json config = read_json_file(join_path(wanted.out, "config.json"), 1 << 20);
    return config.at("quantization_config").at(key).size();
  };
  EXPECT_EQ(ignored("modelopt", "ignore"), 8u);
  write_file_atomically(in("fine.toml"),
                        "name = \"fine\"\ninherit = \"bf16\"\nlinear.fprop = { input = "
                        "\"fp8_e4m3\", weight = { format = \"fp8_e4m3\", block = [32, 32] } }\n"
                        "override = [{ blocks = \"1:\", linear = \"bf16\" }]\n");
  HfExport wanted = request("fp8_fine");
  wanted.block = {32, 32};
  wanted.trained = {.recipe = Recipe::load(in("fine.toml")), .shown = "recipe fine"};
  (void)export_hf(wanted);
  const Json config = read_json_file(join_path(wanted.out, "config.json"), 1 << 20);
  EXPECT_EQ(config.at("quantization_config").at("modules_to_not_convert").size(), 8u);
}

// One layout names the tensor's scale of encoding, the other that of decoding.
TEST_F(ExportHf, LayoutsHoldTheSameValuesUnderFits) {
  write_file_atomically(
      in("fits.toml"),
      "name = \"fits\"\ninherit = \"nvfp4-all\"\nlinear.fprop.weight = { format = "
      "\"nvfp4\", block = [16, 16], fit = [5, 4], scale_max = 256 }\n");
  const auto exported = [&](const std::string& type) {
    HfExport wanted = request(type);
    wanted.trained = {.recipe = Recipe::load(in("fits.toml")), .shown = "recipe fits"};
    (void)export_hf(wanted);
    return io::all_values(wanted.out);
  };
  const std::vector<float> encoded = exported("nvfp4"), decoded = exported("modelopt");
  ASSERT_EQ(encoded.size(), decoded.size());
  for (size_t i = 0; i < encoded.size(); ++i)  // 1 / (1 / x) is off x by two roundings
    ASSERT_NEAR(encoded[i], decoded[i], 0x1p-22f * std::abs(decoded[i])) << i;
}

TEST_F(ExportHf, FoldersWithoutAQuantizedMatrixAreRefused) {
  HfExport wanted = request("nvfp4");
  wanted.trained = {.recipe = Recipe::load("bf16"), .shown = "recipe bf16"};
  EXPECT_EQ(error_of([&] { (void)export_hf(wanted); }),
            "recipe bf16: model.layers.0.self_attn.q_proj.weight: fprop's weight is bf16, which "
            "nvfp4 does not hold: a type that does, or bf16");
  EXPECT_FALSE(is_folder(wanted.out));
}

TEST_F(ExportHf, SaysThatCodesAreBf16) {
  const std::string says = " and 13 others is bf16: its codes are BF16 numbers";
  HfExport wanted = request("bf16");
  wanted.trained = {.recipe = Recipe::load("bf16"), .shown = "recipe bf16"};
  EXPECT_EQ(export_hf(wanted),
            (std::vector<std::string>{"fprop's weight of model.layers.0.self_attn.q_proj.weight" +
                                      says}));
  GgufExport file{.model = in("model"),
                  .out = in("a.gguf"),
                  .name = "a",
                  .type = "bf16",
                  .keep = {},
                  .trained = wanted.trained,
                  .threads = {}};
  EXPECT_EQ(export_gguf(file),
            (std::vector<std::string>{"fprop's weight of blk.0.attn_q.weight" + says}));
  file.trained = {.recipe = Recipe::load("fp32"), .shown = "recipe fp32"};
  EXPECT_EQ(export_gguf(file),
            (std::vector<std::string>{"fprop's weight of blk.0.attn_q.weight and 13 others is "
                                      "fp32: it is rounded to BF16"}));
  file.type = "f32";
  EXPECT_TRUE(export_gguf(file).empty());
}

// As transformers writes them: an index with the file of each tensor, and their bytes.
TEST_F(ExportHf, LargeFoldersHaveShards) {
  for (const std::string type : {"bf16", "nvfp4", "fp8_channel"}) {
    HfExport wanted = request(type);
    (void)export_hf(wanted);
    const std::vector<float> whole = io::all_values(wanted.out);
    const auto dtypes = dtypes_of(wanted.out);
    const io::Safetensors single(join_path(wanted.out, "model.safetensors"));
    uint64_t bytes = 0;
    for (const io::SafetensorsEntry& entry : single.entries()) bytes += entry.bytes;
    wanted.max_shard_bytes = bytes / 3;
    (void)export_hf(wanted);
    EXPECT_FALSE(is_file(join_path(wanted.out, "model.safetensors"))) << type;
    EXPECT_TRUE(io::all_values(wanted.out) == whole) << type;
    const Json index =
        read_json_file(join_path(wanted.out, "model.safetensors.index.json"), 1 << 20);
    EXPECT_EQ(index.at("metadata").at("total_size"), bytes);
    EXPECT_EQ(index.at("weight_map").size(), dtypes.size());
    for (const auto& [tensor, file] : index.at("weight_map").items()) {
      const io::Safetensors shard(join_path(wanted.out, file.get<std::string>()));
      EXPECT_EQ(shard.at(tensor).dtype, dtypes.at(tensor));
    }
    EXPECT_TRUE(is_file(join_path(wanted.out, "model-00001-of-00004.safetensors")) ||
                is_file(join_path(wanted.out, "model-00001-of-00003.safetensors")));
  }
}

}  // namespace
}  // namespace ng
