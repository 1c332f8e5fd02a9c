#include <gtest/gtest.h>

#include <deque>
#include <stdexcept>

#include "base/files.h"
#include "io/hf/names.h"
#include "io/safetensors.h"
#include "support/hf_models.h"

namespace ng::io {
namespace {

using HfRead = HfFolder;

/// The tiny GPT-2 rewritten tensor by tensor before it is read again.
class Rewritten {
 public:
  explicit Rewritten(const std::string& folder, const ModelConfig& config)
      : folder_(folder), config_(config) {
    Parameters parameters(config);
    parameters.fill();
    write_hf_folder(folder, config, parameters.reader());
    const Safetensors file(join_path(folder, kHfWeights));
    for (const SafetensorsEntry& entry : file.entries()) {
      values_.push_back(to_floats(entry));
      tensors_.push_back({.name = entry.name, .dtype = entry.dtype, .shape = entry.shape});
    }
  }
  SafetensorsTensor& tensor(std::string_view name) {
    for (SafetensorsTensor& tensor : tensors_) {
      if (tensor.name == name) return tensor;
    }
    throw std::out_of_range(std::string(name));
  }
  std::vector<float>& values(std::string_view name) {
    return values_[static_cast<size_t>(&tensor(name) - tensors_.data())];
  }
  void remove(std::string_view name) {
    values_.erase(values_.begin() + (&tensor(name) - tensors_.data()));
    tensors_.erase(tensors_.begin() + (&tensor(name) - tensors_.data()));
  }
  void add(const std::string& name, std::vector<int64_t> shape, std::vector<float> values) {
    tensors_.push_back({.name = name, .dtype = "F32", .shape = std::move(shape)});
    values_.push_back(std::move(values));
  }
  void rename(const std::function<std::string(const std::string&)>& change) {
    for (SafetensorsTensor& tensor : tensors_) tensor.name = change(tensor.name);
  }
  std::string read() {
    for (size_t i = 0; i < tensors_.size(); ++i) tensors_[i].data = values_[i].data();
    const std::string path = join_path(folder_, kHfWeights);
    write_safetensors(path, tensors_);
    const std::string said = error_of([&] {
      Parameters parameters(config_);
      read_hf_weights(folder_, config_, parameters.writer());
      Parameters expected(config_);
      expected.fill();
      EXPECT_TRUE(parameters == expected);
    });
    return said.starts_with(path) ? said.substr(path.size() + 2) : said;
  }

 private:
  std::string folder_;
  ModelConfig config_;
  std::vector<SafetensorsTensor> tensors_;
  std::vector<std::vector<float>> values_;
};

TEST_F(HfRead, AcceptsTheUsualVariants) {
  const ModelConfig config = tiny_gpt2(false);
  Rewritten bare(folder_, config);
  bare.rename([](const std::string& name) { return name.substr(12); });
  EXPECT_EQ(bare.read(), "accepted");
  Rewritten buffers(folder_, config);
  buffers.add("transformer.h.1.attn.bias", {1, 1, 2, 2}, {1, 0, 1, 1});
  buffers.add("h.0.attn.masked_bias", {}, {-1e4f});
  buffers.add("lm_head.weight", {11, 6}, buffers.values("transformer.wte.weight"));
  EXPECT_EQ(buffers.read(), "accepted");
  Rewritten no_biases(folder_, config);
  no_biases.remove("transformer.h.1.mlp.c_fc.bias");
  no_biases.remove("transformer.ln_f.bias");
  EXPECT_EQ(no_biases.read(), "accepted");
}

TEST_F(HfRead, NamesWrongTensors) {
  const ModelConfig config = tiny_gpt2(false);
  struct Case {
    std::function<void(Rewritten&)> change;
    const char* says;
  };
  const Case kCases[] = {
      {[](Rewritten& m) { m.remove("transformer.h.1.ln_2.weight"); },
       "\"transformer.h.1.ln_2.weight\": missing: a tensor of shape [6]"},
      {[](Rewritten& m) { m.add("extra", {1}, {1}); },
       "\"extra\": is not a tensor of this model: does it belong to config.json?"},
      {[](Rewritten& m) {
         m.tensor("transformer.h.0.mlp.c_fc.weight").shape = {19, 6};
       },
       "\"transformer.h.0.mlp.c_fc.weight\": shape [19,6]: [6,19] by config.json"},
      {[](Rewritten& m) { m.tensor("transformer.ln_f.weight").dtype = "I32"; },
       "\"transformer.ln_f.weight\": dtype I32: F32 BF16 F16 or F64"},
      {[](Rewritten& m) { m.values("transformer.ln_f.bias")[3] = 1e-30f; },
       "\"transformer.ln_f.bias\": is not zero: config.json says that the model has no such bias"},
      {[](Rewritten& m) {
         m.add("lm_head.weight", {11, 6}, std::vector<float>(66));
       },
       "\"lm_head.weight\": differs from transformer.wte.weight: \"tie_word_embeddings\": false in "
       "config.json"},
      {[](Rewritten& m) { m.add("ln_f.weight", {6}, std::vector<float>(6)); },
       "\"ln_f.weight\": is there twice: keep one"},
      {[](Rewritten& m) { m.values("transformer.ln_f.weight")[2] = 1.0f / 0.0f; },
       "\"transformer.ln_f.weight\": holds inf: finite weights"},
  };
  for (const Case& c : kCases) {
    Rewritten model(folder_, config);
    c.change(model);
    EXPECT_NE(model.read().find(c.says), std::string::npos) << model.read();
  }
}

TEST_F(HfRead, ChecksWithoutAModel) {
  ModelConfig config = tiny_gpt2(false);
  Rewritten model(folder_, config);
  EXPECT_EQ(model.read(), "accepted");
  EXPECT_EQ(error_of([&] { check_hf_weights(folder_, config); }), "accepted");
  config.layers = 10'000;
  EXPECT_NE(error_of([&] { check_hf_weights(folder_, config); }).find("h.2.ln_1.weight\": missing"),
            std::string::npos);
  config.layers = 1;
  EXPECT_NE(error_of([&] { check_hf_weights(folder_, config); }).find("not a tensor of this model"),
            std::string::npos);
}

/// A tiny Llama whose matrices are E4M3 codes with scales beside them.
class QuantizedModel : public HfFolder {
 protected:
  void SetUp() override {
    HfFolder::SetUp();
    Parameters parameters(config_);
    parameters.fill();
    write_hf_folder(folder_, config_, parameters.reader());
    const Safetensors file(in(kHfWeights));
    for (const SafetensorsEntry& entry : file.entries()) {
      std::vector<std::byte>& bytes = bytes_.emplace_back(entry.bytes);
      const bool is_coded = entry.name.find("_proj.weight") != std::string::npos;
      if (is_coded) std::fill(bytes.begin(), bytes.end(), std::byte{0x3C});  // 1.5
      if (!is_coded) entry.read(0, bytes);
      tensors_.push_back({entry.name, is_coded ? "F8_E4M3" : "F32", entry.shape, bytes.data()});
      if (is_coded) add(entry.name + "_scale", "BF16", {entry.shape[0], 1}, {0x40, 0x40});  // 3
    }
  }
  /// `unit` over and over, the first byte last.
  void add(const std::string& name, const std::string& dtype, std::vector<int64_t> shape,
           std::vector<int> unit = {0x3F, 0x80, 0, 0}) {
    std::vector<std::byte>& bytes = bytes_.emplace_back(size_t{4096});
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>(unit[unit.size() - 1 - i % unit.size()]);
    tensors_.push_back({name, dtype, std::move(shape), bytes.data()});
  }
  std::string said() {
    write_safetensors(in(kHfWeights), tensors_);
    return error_of([&] {
      Parameters read(config_);
      notes_ = check_hf_weights(folder_, config_);
      read_hf_weights(folder_, config_, read.writer());
      EXPECT_EQ(read.rows()[2].row(3)[1], 4.5f) << "blocks.0.attn.q.weight";
      EXPECT_EQ(read.rows()[0].row(0)[1], 2.0f) << "the embedding";
    });
  }

  const ModelConfig config_ = tiny_llama();
  std::deque<std::vector<std::byte>> bytes_;
  std::vector<SafetensorsTensor> tensors_;
  std::vector<std::string> notes_;
};

TEST_F(QuantizedModel, LeavesOutScalesOfActivations) {
  EXPECT_EQ(said(), "accepted");
  EXPECT_TRUE(notes_.empty());
  add("model.layers.0.self_attn.q_proj.input_scale", "F32", {1});
  add("model.layers.0.self_attn.k_proj.k_scale", "BF16", {});
  add("model.layers.1.self_attn.k_scale", "F32", {2, 1, 1});
  add("model.layers.1.mlp.down_proj.output_zero_point", "I8", {1});
  EXPECT_EQ(said(), "accepted");
  EXPECT_EQ(notes_,
            std::vector<std::string>{
                "left out: 1 input_scale, 2 k_scale, 1 output_zero_point: of activations or "
                "the KV cache, no part of the weights"});
  add("model.layers.1.mlp.down_proj.my_scale", "F32", {1});
  EXPECT_NE(said().find("down_proj.weight\": has model.layers.1.mlp.down_proj.my_scale beside it"),
            std::string::npos);
  tensors_.back().name = "model.layers.1.extra";
  EXPECT_NE(said().find("\"model.layers.1.extra\": is not a tensor of this model"),
            std::string::npos);
}

TEST_F(QuantizedModel, NeverTakesCodesForNumbers) {
  for (SafetensorsTensor& tensor : tensors_)
    if (tensor.name == "model.layers.0.mlp.up_proj.weight_scale") tensor.name = "x.up_scale";
  EXPECT_NE(said().find("up_proj.weight\": is codes of F8_E4M3 among quantized weights"),
            std::string::npos);
  std::erase_if(tensors_, [](const auto& tensor) { return tensor.name.ends_with("_scale"); });
  EXPECT_NE(said().find("is codes of F8_E4M3 without a scale, and "), std::string::npos);
}

}  // namespace
}  // namespace ng::io
