#include "io/hf_folder.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cmath>
#include <functional>
#include <limits>

#include "base/error.h"
#include "base/file_calls.h"
#include "base/files.h"
#include "data/byte_tokenizer.h"
#include "io/hf_names.h"
#include "io/safetensors.h"

namespace ng::io {
namespace {

const std::string kGolden = std::string(NG_SOURCE_DIR) + "/tests/golden/models/";

/// Memory for all parameters of a model; rows lie apart so that strides matter.
class Parameters {
 public:
  explicit Parameters(const ModelConfig& config) {
    for (const ParameterSpec& spec : parameter_table(config)) {
      const int64_t stride = spec.cols + 3;
      memory_.emplace_back(static_cast<size_t>(spec.rows * stride), -7.0f);
      views_.push_back({memory_.back().data(), spec.rows, spec.cols, stride});
    }
  }
  /// Every value different, all of them exact in BF16 and F16 up to 256.
  void fill() {
    float next = 1.0f;
    for (const View& view : views_) {
      for (int64_t r = 0; r < view.rows; ++r) {
        for (int64_t c = 0; c < view.cols; ++c) {
          view.row(r)[c] = next;
          next = next == 256.0f ? -255.0f : next + 1.0f;
        }
      }
    }
  }
  [[nodiscard]] std::span<const View> views() const { return views_; }
  [[nodiscard]] std::vector<ConstView> const_views() const {
    return {views_.begin(), views_.end()};
  }

  friend bool operator==(const Parameters& a, const Parameters& b) {
    return a.memory_ == b.memory_;
  }

 private:
  std::vector<std::vector<float>> memory_;
  std::vector<View> views_;
};

ModelConfig tiny_gpt2(bool bias) {
  return {.architecture = Architecture::gpt2,
          .vocab = 11,
          .layers = 2,
          .heads = 3,
          .kv_heads = 3,
          .head_dim = 2,
          .width = 6,
          .ffn = 19,
          .context = 5,
          .tie_embeddings = true,
          .attention_bias = bias,
          .mlp_bias = bias,
          .norm_bias = bias,
          .gelu = Gelu::erf};
}

ModelConfig tiny_llama() {
  return {.architecture = Architecture::llama,
          .vocab = 11,
          .layers = 2,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 6,
          .width = 8,
          .ffn = 5,
          .context = 7,
          .tie_embeddings = false,
          .attention_bias = true,
          .mlp_bias = true,
          .norm_eps = 3e-6f,
          .rope_theta = 500000.0f};
}

class HfFolder : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = join_path(testing::TempDir(),
                        std::string("hf_folder_test_") +
                            testing::UnitTest::GetInstance()->current_test_info()->name());
    remove_all(folder_);
  }
  void TearDown() override { remove_all(folder_); }

  [[nodiscard]] std::string in(std::string_view name) const { return join_path(folder_, name); }

  std::string folder_;
};

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return "accepted";
}

TEST_F(HfFolder, RoundTripsModelsDtypesAndShards) {
  ModelConfig mixed = tiny_gpt2(true);
  mixed.attention_bias = false;
  ModelConfig untied = tiny_gpt2(true);
  untied.tie_embeddings = false;
  ModelConfig multi_query = tiny_llama();
  multi_query.kv_heads = 1;
  multi_query.attention_bias = multi_query.mlp_bias = false;
  multi_query.tie_embeddings = true;
  for (const ModelConfig& config :
       {tiny_gpt2(true), tiny_gpt2(false), mixed, untied, tiny_llama(), multi_query}) {
    Parameters written(config);
    written.fill();
    for (const HfWriteOptions& options :
         {HfWriteOptions{.dtype = "F32"}, HfWriteOptions{.dtype = "BF16"},
          HfWriteOptions{.dtype = "F16"}, HfWriteOptions{.dtype = "F32", .max_shard_bytes = 600}}) {
      write_hf_folder(folder_, config, written.const_views(), options);
      EXPECT_EQ(is_file(in(kHfIndex)), options.max_shard_bytes == 600);
      EXPECT_EQ(read_hf_config(folder_), config);
      Parameters read(config);
      read_hf_weights(folder_, config, read.views());
      EXPECT_TRUE(read == written) << options.dtype;
    }
  }
}

TEST_F(HfFolder, AShardHoldsAtLeastOneTensor) {
  const ModelConfig config = tiny_llama();
  Parameters written(config);
  written.fill();
  write_hf_folder(folder_, config, written.const_views(), {.max_shard_bytes = 1});
  const size_t tensors = parameter_table(config).size();
  EXPECT_TRUE(is_file(in(fmt::format("model-{0:05}-of-{0:05}.safetensors", tensors))));
  Parameters read(config);
  read_hf_weights(folder_, config, read.views());
  EXPECT_TRUE(read == written);
}

TEST_F(HfFolder, StoresLinearLayersOfGpt2Transposed) {
  const ModelConfig config = tiny_gpt2(false);
  Parameters written(config);
  written.fill();
  write_hf_folder(folder_, config, written.const_views());
  const Safetensors file(in(kHfWeights));
  EXPECT_EQ(file.metadata().at("format"), "pt");
  const SafetensorsEntry& qkv = file.at("transformer.h.0.attn.c_attn.weight");
  EXPECT_EQ(qkv.shape, (std::vector<int64_t>{6, 18}));
  const std::vector<HfTensor> tensors = hf_tensors(config);
  for (const HfTensor& tensor : tensors) {
    const std::vector<float> stored = to_floats(file.at(tensor.spec.hf_name));
    for (int64_t r = 0; r < tensor.spec.rows; ++r) {
      for (int64_t c = 0; c < tensor.spec.cols; ++c) {
        const int64_t at =
            tensor.spec.hf_transposed ? c * tensor.spec.rows + r : r * tensor.spec.cols + c;
        const float value = tensor.parameter < 0
                                ? 0.0f
                                : written.views()[static_cast<size_t>(tensor.parameter)].row(r)[c];
        ASSERT_EQ(stored[static_cast<size_t>(at)], value) << tensor.spec.hf_name;
      }
    }
  }
  EXPECT_EQ(file.entries().size(), tensors.size());
}

TEST_F(HfFolder, ReadsTheGoldenModels) {
  for (const char* name : {"gpt2_tiny", "llama_tiny"}) {
    const ModelConfig config = read_hf_config(kGolden + name);
    Parameters read(config);
    read_hf_weights(kGolden + name, config, read.views());
    const Safetensors file(kGolden + name + "/model.safetensors");
    const std::vector<ParameterSpec> table = parameter_table(config);
    for (size_t i = 0; i < table.size(); ++i) {
      const std::vector<float> stored = to_floats(file.at(table[i].hf_name));
      EXPECT_EQ(read.views()[i].row(0)[0], stored[0]) << table[i].name;
      EXPECT_EQ(read.views()[i].row(table[i].rows - 1)[table[i].cols - 1], stored.back());
    }
  }
  const ModelConfig llama = read_hf_config(kGolden + "llama_tiny");
  EXPECT_EQ(llama.kv_heads, 2);
  EXPECT_EQ(llama.rope_theta, 10000.0f);
  EXPECT_FALSE(llama.tie_embeddings);
  const ModelConfig gpt2 = read_hf_config(kGolden + "gpt2_tiny");
  EXPECT_EQ(gpt2.ffn, 256);
  EXPECT_TRUE(gpt2.tie_embeddings && gpt2.attention_bias && gpt2.mlp_bias && gpt2.norm_bias);
}

/// The tiny GPT-2 rewritten tensor by tensor before it is read again.
class Rewritten {
 public:
  explicit Rewritten(const std::string& folder, const ModelConfig& config)
      : folder_(folder), config_(config) {
    Parameters parameters(config);
    parameters.fill();
    write_hf_folder(folder, config, parameters.const_views());
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
      read_hf_weights(folder_, config_, parameters.views());
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

TEST_F(HfFolder, AcceptsTheUsualVariants) {
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

TEST_F(HfFolder, NamesWrongTensors) {
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
  };
  for (const Case& c : kCases) {
    Rewritten model(folder_, config);
    c.change(model);
    EXPECT_NE(model.read().find(c.says), std::string::npos) << model.read();
  }
}

TEST_F(HfFolder, NamesWrongIndexes) {
  const ModelConfig config = tiny_llama();
  Parameters parameters(config);
  write_hf_folder(folder_, config, parameters.const_views(), {.max_shard_bytes = 300});
  const auto read = [&] {
    return error_of([&] { read_hf_weights(folder_, config, parameters.views()); });
  };
  EXPECT_EQ(read(), "accepted");
  const Json index = read_json_file(in(kHfIndex), 1 << 20);
  Json bad = index;
  bad["weight_map"]["model.norm.weight"] = "../model.safetensors";
  write_file_atomically(in(kHfIndex), bad.dump());
  EXPECT_NE(read().find("weight_map.model.norm.weight: \"../model.safetensors\": the name of a"),
            std::string::npos);
  bad = index;
  bad.erase("weight_map");
  write_file_atomically(in(kHfIndex), bad.dump());
  EXPECT_NE(read().find("index.json: weight_map: missing"), std::string::npos);
  write_file_atomically(in(kHfIndex), index.dump());
  const std::string shard = index["weight_map"]["model.norm.weight"];
  remove_all(in(shard));
  EXPECT_NE(read().find(shard + ": missing: model.safetensors.index.json names it"),
            std::string::npos);
  remove_all(in(kHfIndex));
  EXPECT_NE(read().find("model.safetensors: cannot open: No such file"), std::string::npos);
}

TEST_F(HfFolder, RoundsToNearestEvenAndRefusesOverflow) {
  const ModelConfig config = tiny_llama();
  Parameters parameters(config);
  parameters.views()[0].row(0)[0] = 257.0f;  // BF16 neighbours 256 and 258: ties to even
  parameters.views()[0].row(0)[1] = 0x1.03p8f;
  parameters.views()[0].row(0)[2] = std::numeric_limits<float>::quiet_NaN();
  parameters.views()[0].row(0)[3] = -std::numeric_limits<float>::infinity();
  write_hf_folder(folder_, config, parameters.const_views(), {.dtype = "BF16"});
  const std::vector<float> bf16 =
      to_floats(Safetensors(in(kHfWeights)).at("model.embed_tokens.weight"));
  EXPECT_EQ(bf16[0], 256.0f);
  EXPECT_EQ(bf16[1], 260.0f);
  EXPECT_TRUE(std::isnan(bf16[2]));
  EXPECT_EQ(bf16[3], -std::numeric_limits<float>::infinity());
  parameters.views()[1].row(0)[2] = -65520.0f;
  const auto write = [&](const char* dtype) {
    return error_of(
        [&] { write_hf_folder(folder_, config, parameters.const_views(), {.dtype = dtype}); });
  };
  EXPECT_EQ(
      write("F16"),
      "model.layers.0.input_layernorm.weight: -65520 does not fit float16: write F32 or BF16");
  EXPECT_EQ(write("F8"), "dtype: \"F8\": F32 BF16 F16");
  EXPECT_EQ(Safetensors(in(kHfWeights)).at("lm_head.weight").dtype, "BF16");  // the old one stays
}

TEST_F(HfFolder, ReplacesModelsOnly) {
  const ModelConfig config = tiny_llama();
  const Parameters parameters(config);
  const ByteTokenizer tokenizer;
  const auto write = [&] {
    return error_of([&] {
      write_hf_folder(folder_ + "/", config, parameters.const_views(), {.tokenizer = &tokenizer});
    });
  };
  make_folders(folder_);
  write_file_atomically(in("thesis.tex"), "");
  EXPECT_NE(write().find("holds other files and no model"), std::string::npos);
  remove_all(in("thesis.tex"));
  EXPECT_EQ(write(), "accepted");
  EXPECT_EQ(write(), "accepted");
  EXPECT_EQ(list_folder(folder_),
            (std::vector<std::string>{"config.json", "generation_config.json", "model.safetensors",
                                      "tokenizer.json", "tokenizer_config.json"}));
  EXPECT_EQ(open_tokenizer(folder_)->vocab(), 256);
}

TEST_F(HfFolder, AFailureAtAnyCallLeavesOldOrNew) {
  const ModelConfig config = tiny_llama();
  Parameters parameters(config);
  parameters.fill();
  const ByteTokenizer tokenizer;
  const HfWriteOptions options{.max_shard_bytes = 3000, .tokenizer = &tokenizer};
  int64_t calls = 0;
  {
    const FileFaults counter(0);
    write_hf_folder(folder_, config, parameters.const_views(), options);
    calls = counter.calls();
  }
  EXPECT_GT(calls, 30);
  for (int64_t call = 1; call <= calls; ++call) {
    {
      const FileFaults faults(call, ENOSPC);
      EXPECT_THROW(write_hf_folder(folder_, config, parameters.const_views(), options), Error);
    }
    Parameters read(config);
    read_hf_weights(folder_, config, read.views());
    EXPECT_TRUE(read == parameters) << call;
  }
}

}  // namespace
}  // namespace ng::io
