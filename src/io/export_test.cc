// Exports of the golden models: the bytes of other programs' files, and what is refused.
#include <gtest/gtest.h>

#include <map>

#include "base/files.h"
#include "base/json.h"
#include "io/gguf/export.h"
#include "io/gguf/model.h"
#include "io/hf/export.h"
#include "io/import_model.h"
#include "io/model_files.h"
#include "io/safetensors.h"
#include "support/hf_models.h"
#include "support/scratch_folder.h"

namespace ng {
namespace {

std::string golden(const std::string& name) {
  return std::string(NG_SOURCE_DIR) + "/tests/golden/interop/models/" + name;
}

class Export : public ScratchFolder {
 protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    make_folders(folder_);
  }

  [[nodiscard]] GgufExport gguf(const std::string& model, const std::string& type) const {
    return {.model = model,
            .out = in(type + ".gguf"),
            .name = "golden",
            .type = type,
            .keep = {},
            .trained = {},
            .threads = {}};
  }
  [[nodiscard]] HfExport hf(const std::string& model, const std::string& type) const {
    return {
        .model = model, .out = in(type), .type = type, .block = {}, .trained = {}, .threads = {}};
  }
  /// A model of these sizes in a folder.
  [[nodiscard]] std::string written(const ModelConfig& config) const {
    io::Parameters parameters(config);
    parameters.fill();
    io::write_hf_folder(in("model"), config, parameters.reader());
    return in("model");
  }
};

struct Stored {
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};

template <class File>
std::map<std::string, Stored> tensors_of(const File& file) {
  std::map<std::string, Stored> tensors;
  for (const io::SafetensorsEntry& entry : file.entries()) {
    std::vector<std::byte> bytes(entry.bytes);
    entry.read(0, bytes);
    tensors[entry.name] = {entry.dtype, entry.shape, std::move(bytes)};
  }
  return tensors;
}

void expect_same_tensors(const std::map<std::string, Stored>& have,
                         const std::map<std::string, Stored>& want) {
  EXPECT_EQ(have.size(), want.size());
  for (const auto& [name, tensor] : want) {
    ASSERT_TRUE(have.contains(name)) << name;
    EXPECT_EQ(have.at(name).dtype, tensor.dtype) << name;
    EXPECT_EQ(have.at(name).shape, tensor.shape) << name;
    EXPECT_TRUE(have.at(name).bytes == tensor.bytes) << name;
  }
}

std::map<std::string, io::GgufValue> keys_of(const io::Gguf& file) {
  std::map<std::string, io::GgufValue> keys(file.keys().begin(), file.keys().end());
  keys.erase("general.name");
  return keys;
}

TEST_F(Export, GgufHasTheGoldenBytes) {
  for (const std::string name :
       {"llama/bf16", "llama/q8_0", "llama/mxfp4", "llama/nvfp4", "gpt2/f16"}) {
    const size_t slash = name.find('/');
    const GgufExport request = gguf(golden(name.substr(0, slash) + "/hf"), name.substr(slash + 1));
    EXPECT_TRUE(export_gguf(request).empty());
    const io::Gguf have(request.out), want(golden(name + ".gguf"));
    expect_same_tensors(tensors_of(have), tensors_of(want));
    EXPECT_TRUE(keys_of(have) == keys_of(want)) << name;
    EXPECT_EQ(have.text("general.name"), "golden");
  }
}

TEST_F(Export, FoldersHaveTheGoldenBytes) {
  for (const std::string type : {"nvfp4", "mxfp4", "fp8_channel", "fp8_fine", "modelopt"}) {
    HfExport request = hf(golden("llama/hf"), type);
    if (type == "fp8_fine") request.block = {32, 32};
    (void)export_hf(request);
    const std::string want = golden("llama/" + type);
    expect_same_tensors(tensors_of(io::Safetensors(join_path(request.out, "model.safetensors"))),
                        tensors_of(io::Safetensors(join_path(want, "model.safetensors"))));
    Json config = read_json_file(join_path(want, "config.json"), 1 << 20);
    config["eos_token_id"] = config["pad_token_id"] = 255;  // the tokenizer's, where it has none
    EXPECT_EQ(read_json_file(join_path(request.out, "config.json"), 1 << 20), config);
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
      EXPECT_EQ(read_file(join_path(request.out, file), 1 << 20),
                read_file(join_path(want, file), 1 << 20));
    EXPECT_EQ(
        list_folder(request.out),
        (std::vector<std::string>{"config.json", "generation_config.json", "model.safetensors",
                                  "tokenizer.json", "tokenizer_config.json"}));
  }
}

std::vector<float> values_of(const std::string& model, const std::string& hf_name) {
  const ModelConfig config = io::read_model_config(model);
  const io::ParameterReader read = io::open_model_weights(model, config);
  const std::vector<ParameterSpec> table = parameter_table(config);
  std::vector<float> values;
  for (size_t i = 0; i < table.size(); ++i) {
    if (table[i].hf_name != hf_name) continue;
    std::vector<float> row(static_cast<size_t>(table[i].cols));
    for (int64_t r = 0; r < table[i].rows; ++r) {
      read(i, r, row);
      values.insert(values.end(), row.begin(), row.end());
    }
  }
  return values;
}

TEST(Import, QuantizedFoldersHaveTheGoldenValues) {
  const io::Safetensors reference(golden("llama/reference.safetensors"));
  int count = 0;
  for (const io::SafetensorsEntry& entry : reference.entries()) {
    if (!entry.name.starts_with("values.")) continue;
    const size_t dot = entry.name.find('.', 7);
    const std::string layout = entry.name.substr(7, dot - 7);
    EXPECT_EQ(values_of(golden("llama/" + layout), entry.name.substr(dot + 1)),
              io::to_floats(entry))
        << entry.name;
    ++count;
  }
  EXPECT_EQ(count, 5);
}

// What a file holds is what it was made of, and what is imported of it.
TEST_F(Export, ReadsBack) {
  for (const std::string model : {"llama/hf", "gpt2/hf"}) {
    const std::vector<float> values = io::all_values(golden(model));
    for (const std::string type : {"f32", "bf16"}) {
      const GgufExport request = gguf(golden(model), type);
      (void)export_gguf(request);
      EXPECT_EQ(io::read_model_config(request.out), io::read_model_config(golden(model)));
      EXPECT_TRUE(io::all_values(request.out) == values) << model << ' ' << type;
      (void)import_model(request.out, in("imported"));
      EXPECT_TRUE(io::all_values(in("imported")) == values) << model << ' ' << type;
      const Json config = read_json_file(in("imported/config.json"), 1 << 20);
      EXPECT_EQ(config.at("dtype"), "float32");
      remove_all(in("imported"));
    }
  }
  for (const std::string type :
       {"bf16", "nvfp4", "mxfp4", "mxfp8", "fp8_tensor", "fp8_channel", "fp8_block", "modelopt"}) {
    (void)export_hf(hf(golden("llama/hf"), type));
    (void)import_model(in(type), in("imported"));
    EXPECT_TRUE(io::all_values(in("imported")) == io::all_values(in(type))) << type;
    EXPECT_FALSE(
        read_json_file(in("imported/config.json"), 1 << 20).contains("quantization_config"));
    remove_all(in("imported"));
  }
}

// FP8 rounds to three bits beside the largest value that shares the scale; blocks may end early.
TEST_F(Export, EveryLayoutKeepsTheValues) {
  const std::vector<float> values = io::all_values(golden("llama/hf"));
  float amax = 0;
  for (const float value : values) amax = std::max(amax, std::fabs(value));
  for (const std::string type : {"mxfp8", "fp8_tensor", "fp8_channel", "fp8_block", "fp8_fine"}) {
    HfExport request = hf(golden("llama/hf"), type);
    if (type == "fp8_block") request.block = {48, 24};
    if (type == "fp8_fine") request.block = {32, 64};
    (void)export_hf(request);
    const std::vector<float> have = io::all_values(request.out);
    ASSERT_EQ(have.size(), values.size());
    for (size_t i = 0; i < values.size(); ++i)  // half a step, or clipped by up to 1/8 (floor)
      ASSERT_NEAR(have[i], values[i], std::fabs(values[i]) / 8 + amax / 448) << type << ' ' << i;
  }
}

TEST_F(Export, SharesScales) {
  HfExport request = hf(golden("llama/hf"), "nvfp4");
  request.share_scales = true;
  EXPECT_TRUE(export_hf(request).empty());
  const io::Safetensors file(in("nvfp4/model.safetensors"));
  const auto scale = [&](const std::string& layer) {
    return io::to_floats(file.at("model.layers.0." + layer + ".weight_global_scale"))[0];
  };
  EXPECT_EQ(scale("self_attn.q_proj"), scale("self_attn.k_proj"));
  EXPECT_EQ(scale("self_attn.q_proj"), scale("self_attn.v_proj"));
  EXPECT_EQ(scale("mlp.gate_proj"), scale("mlp.up_proj"));
  EXPECT_NE(scale("mlp.down_proj"), scale("mlp.up_proj"));
  const io::Safetensors alone(golden("llama/nvfp4/model.safetensors"));
  float least = 1e30f;  // encode scale of the largest amax
  for (const char* layer : {"q_proj", "k_proj", "v_proj"})
    least = std::min(least, io::to_floats(alone.at(fmt::format(
                                "model.layers.0.self_attn.{}.weight_global_scale", layer)))[0]);
  EXPECT_EQ(scale("self_attn.q_proj"), least);
}

TEST_F(Export, KeepsWhatIsNamed) {
  GgufExport request = gguf(golden("llama/hf"), "nvfp4");
  request.keep = {
      {"blk.0.attn_*", "bf16"}, {"*q_proj.weight", "q8_0"}, {"token_embd.weight", "f32"}};
  (void)export_gguf(request);
  const io::Gguf file(request.out);
  EXPECT_EQ(file.find("blk.0.attn_k.weight")->dtype, "BF16");
  EXPECT_EQ(file.find("blk.0.attn_q.weight")->dtype, "Q8_0");
  EXPECT_EQ(file.find("blk.0.attn_norm.weight")->dtype, "F32");
  EXPECT_EQ(file.find("token_embd.weight")->dtype, "F32");
  EXPECT_EQ(file.find("blk.0.ffn_up.weight")->dtype, "NVFP4");
}

TEST_F(Export, Refuses) {
  const auto said = [&](const auto& act) {
    const std::string text = error_of(act);
    for (const std::string& name : list_folder(folder_))
      EXPECT_EQ(name, "model") << "left behind after " << text;
    return text;
  };
  const std::string llama = golden("llama/hf"), gpt2 = golden("gpt2/hf");
  EXPECT_EQ(said([&] { (void)export_gguf(gguf(gpt2, "nvfp4")); }),
            gpt2 +
                ": \"blk.0.attn_qkv.weight\": llama.cpp ignores the scales of NVFP4 tensors of "
                "gpt2, without a word: mxfp4, q8_0 or bf16");
  EXPECT_EQ(said([&] { (void)export_hf(hf(gpt2, "nvfp4")); }),
            gpt2 +
                ": gpt2 has no quantized layout: its modules are no Linear: --type bf16, or --to "
                "gguf --type q8_0");
  EXPECT_EQ(said([&] {
              GgufExport request = gguf(llama, "q8_0");
              request.keep = {{"token_embd.weight", "nvfp4"}};
              (void)export_gguf(request);
            }),
            llama +
                ": \"token_embd.weight\": an embedding, which is the head too, cannot be nvfp4: "
                "bf16, f16, f32 or q8_0");
  EXPECT_EQ(said([&] {
              GgufExport request = gguf(llama, "q8_0");
              request.keep = {{"blk.7.*", "bf16"}};
              (void)export_gguf(request);
            }),
            "--keep: blk.7.*: matches no matrix whose type can be chosen: names of the file, as "
            "'blk.0.*' or 'token_embd.weight'");
  HfExport fine = hf(llama, "fp8_fine");
  EXPECT_EQ(said([&] { (void)export_hf(fine); }),
            llama +
                ": \"model.layers.0.self_attn.q_proj.weight\": shape [64,64] is no multiple of "
                "blocks of 128x128: --block with sizes that divide it, or fp8_block");
  ModelConfig config = io::tiny_llama();
  const std::string tiny = written(config);
  EXPECT_EQ(said([&] { (void)export_gguf(gguf(tiny, "mxfp4")); }),
            tiny +
                ": \"blk.0.attn_q.weight\": shape [24,8]: rows of 8 are no whole blocks of 32 for "
                "MXFP4: --keep 'blk.0.attn_q.weight=bf16'");
  EXPECT_EQ(said([&] { (void)export_gguf(gguf(tiny, "nvfp4")); }),
            tiny +
                ": \"blk.0.attn_q.weight\": llama.cpp aborts on NVFP4 tensors of a llama with "
                "biases in its MLPs: mxfp4, q8_0 or bf16");
  EXPECT_EQ(said([&] { (void)export_hf(hf(tiny, "mxfp8")); }),
            tiny +
                ": \"model.layers.0.self_attn.q_proj.weight\": shape [24,8] has rows of no whole "
                "blocks of 32: fp8_channel or bf16");
}

}  // namespace
}  // namespace ng
