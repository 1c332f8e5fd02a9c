#include <gtest/gtest.h>

#include <cerrno>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/file_calls.h"
#include "base/files.h"
#include "base/json.h"
#include "io/hf/folder.h"
#include "io/hf/names.h"
#include "io/model_settings.h"
#include "io/safetensors.h"
#include "support/hf_models.h"
#include "tokenizer/byte_tokenizer.h"

namespace ng::io {
namespace {

const std::string kGoldenModels = std::string(NG_SOURCE_DIR) + "/tests/golden/models/";

TEST_F(HfFolder, RoundTripsModelsDtypesAndShards) {
  ModelConfig mixed = tiny_gpt2(true);
  mixed.attention_bias = false;
  ModelConfig untied = tiny_gpt2(true);
  untied.tie_embeddings = false;
  ModelConfig multi_query = tiny_llama();
  multi_query.kv_heads = 1;
  multi_query.attention_bias = multi_query.mlp_bias = false;
  multi_query.tie_embeddings = true;
  ModelConfig qwen3 = multi_query;
  qwen3.architecture = Architecture::qwen3;
  qwen3.rope_scaling = {.factor = 4, .original_context = 5};
  for (const ModelConfig& config :
       {tiny_gpt2(true), tiny_gpt2(false), mixed, untied, tiny_llama(), multi_query, qwen3}) {
    Parameters written(config);
    written.fill();
    for (const HfWriteOptions& options :
         {HfWriteOptions{.dtype = "F32"}, HfWriteOptions{.dtype = "BF16"},
          HfWriteOptions{.dtype = "F16"}, HfWriteOptions{.dtype = "F32", .max_shard_bytes = 600}}) {
      write_hf_folder(folder_, config, written.reader(), options);
      EXPECT_EQ(is_file(in(kHfIndex)), options.max_shard_bytes == 600);
      EXPECT_EQ(read_hf_config(folder_), config);
      Parameters read(config);
      read_hf_weights(folder_, config, read.writer());
      EXPECT_TRUE(read == written) << options.dtype;
    }
  }
}

TEST_F(HfFolder, HasTheChatTemplateThatIsGiven) {
  const ModelConfig config = tiny_llama();
  Parameters written(config);
  written.fill();
  const ByteTokenizer plain, own(NamedTemplates{{"default", "{{ own }}"}, {"rag", "{{ rag }}"}});
  const auto template_of = [&](const HfWriteOptions& options) {
    write_hf_folder(folder_, config, written.reader(), options);
    return std::string(open_tokenizer(folder_)->chat_template());
  };
  EXPECT_EQ(template_of({.tokenizer = &plain}), "");
  EXPECT_EQ(template_of({.tokenizer = &own}), "{{ own }}");
  EXPECT_EQ(read_file(in("additional_chat_templates/rag.jinja"), 99), "{{ rag }}");
  EXPECT_EQ(template_of({.tokenizer = &own, .chat_template = "{{ given }}"}), "{{ given }}");
  const Json saved = read_json_file(in("tokenizer_config.json"), 1 << 20);
  EXPECT_EQ(saved.at("eos_token"), "<|endoftext|>");
  EXPECT_EQ(saved.at("chat_template").at(0).at("template"), "{{ given }}");
  EXPECT_EQ(read_file(in("chat_template.jinja"), 99), "{{ given }}");
  EXPECT_EQ(read_file(in("additional_chat_templates/rag.jinja"), 99), "{{ rag }}");
}

TEST_F(HfFolder, AShardHoldsAtLeastOneTensor) {
  const ModelConfig config = tiny_llama();
  Parameters written(config);
  written.fill();
  write_hf_folder(folder_, config, written.reader(), {.max_shard_bytes = 1});
  const size_t tensors = parameter_table(config).size();
  EXPECT_TRUE(is_file(in(fmt::format("model-{0:05}-of-{0:05}.safetensors", tensors))));
  Parameters read(config);
  read_hf_weights(folder_, config, read.writer());
  EXPECT_TRUE(read == written);
}

TEST_F(HfFolder, StoresLinearLayersOfGpt2Transposed) {
  const ModelConfig config = tiny_gpt2(false);
  Parameters written(config);
  written.fill();
  write_hf_folder(folder_, config, written.reader());
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
                                : written.rows()[static_cast<size_t>(tensor.parameter)].row(r)[c];
        ASSERT_EQ(stored[static_cast<size_t>(at)], value) << tensor.spec.hf_name;
      }
    }
  }
  EXPECT_EQ(file.entries().size(), tensors.size());
}

TEST_F(HfFolder, ReadsTheGoldenModels) {
  for (const char* name : {"gpt2_tiny", "llama_tiny"}) {
    const ModelConfig config = read_hf_config(kGoldenModels + name);
    Parameters read(config);
    read_hf_weights(kGoldenModels + name, config, read.writer());
    const Safetensors file(kGoldenModels + name + "/model.safetensors");
    const std::vector<ParameterSpec> table = parameter_table(config);
    for (size_t i = 0; i < table.size(); ++i) {
      const std::vector<float> stored = to_floats(file.at(table[i].hf_name));
      EXPECT_EQ(read.rows()[i].row(0)[0], stored[0]) << table[i].name;
      EXPECT_EQ(read.rows()[i].row(table[i].rows - 1)[table[i].cols - 1], stored.back());
    }
  }
  const ModelConfig llama = read_hf_config(kGoldenModels + "llama_tiny");
  EXPECT_EQ(llama.kv_heads, 2);
  EXPECT_EQ(llama.rope_theta, 10000.0f);
  EXPECT_FALSE(llama.tie_embeddings);
  const ModelConfig gpt2 = read_hf_config(kGoldenModels + "gpt2_tiny");
  EXPECT_EQ(gpt2.ffn, 256);
  EXPECT_TRUE(gpt2.tie_embeddings && gpt2.attention_bias && gpt2.mlp_bias && gpt2.norm_bias);
}

TEST_F(HfFolder, NamesWrongIndexes) {
  const ModelConfig config = tiny_llama();
  Parameters parameters(config);
  write_hf_folder(folder_, config, parameters.reader(), {.max_shard_bytes = 300});
  const auto read = [&] {
    return error_of([&] { read_hf_weights(folder_, config, parameters.writer()); });
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
  parameters.rows()[0].row(0)[0] = 257.0f;  // BF16 neighbours 256 and 258: ties to even
  parameters.rows()[0].row(0)[1] = 0x1.03p8f;
  parameters.rows()[0].row(0)[2] = std::numeric_limits<float>::quiet_NaN();
  parameters.rows()[0].row(0)[3] = -std::numeric_limits<float>::infinity();
  write_hf_folder(folder_, config, parameters.reader(), {.dtype = "BF16"});
  const std::vector<float> bf16 =
      to_floats(Safetensors(in(kHfWeights)).at("model.embed_tokens.weight"));
  EXPECT_EQ(bf16[0], 256.0f);
  EXPECT_EQ(bf16[1], 260.0f);
  EXPECT_TRUE(std::isnan(bf16[2]));
  EXPECT_EQ(bf16[3], -std::numeric_limits<float>::infinity());
  parameters.rows()[1].row(0)[2] = -65520.0f;
  const auto write = [&](const char* dtype) {
    return error_of(
        [&] { write_hf_folder(folder_, config, parameters.reader(), {.dtype = dtype}); });
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
      write_hf_folder(folder_ + "/", config, parameters.reader(), {.tokenizer = &tokenizer});
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
  write_file_atomically(in("model-00001-of-00002.safetensors"), "");
  EXPECT_EQ(write(), "accepted");
  const std::string own = read_file(in("config.json"), 1 << 20);
  const std::string theirs =
      "{\n  \"model_type\": \"llama\",\n  \"transformers_version\": \"5.0\"\n}\n";
  write_file_atomically(in("config.json"), theirs);
  EXPECT_NE(write().find("holds what transformers saved"), std::string::npos);
  EXPECT_EQ(read_file(in("config.json"), 1 << 20), theirs);
  write_file_atomically(in("config.json"), "{\"torch_dtype\": \"bfloat16\"}");
  EXPECT_NE(write().find("holds what another program saved"), std::string::npos);
  for (const char* text : {"", "{}", "{\"dtype\": \"float32\", \"torch_dtype\": \"float32\"}"}) {
    write_file_atomically(in("config.json"), text);
    EXPECT_NE(write().find("holds what another program saved"), std::string::npos) << text;
  }
  const Json sorted = Json::parse(own);
  for (const int indent : {-1, 2, 4}) {
    write_file_atomically(in("config.json"), json_text(sorted, indent) + "\n");
    EXPECT_NE(write().find("holds what another program saved"), std::string::npos) << indent;
  }
  write_file_atomically(in("config.json"), own);
  for (const char* text : {"{\"peft_version\": \"0.21.0\"}",
                           "{\n  \"peft_type\": \"LORA\",\n  \"peft_version\": \"0.21.0\"\n}\n"}) {
    write_file_atomically(in("adapter_config.json"), text);
    EXPECT_NE(write().find("holds what PEFT saved"), std::string::npos);
  }
  write_file_atomically(in("adapter_config.json"),
                        "{\n  \"bias\": \"none\",\n  \"peft_type\": \"LORA\"\n}\n");
  EXPECT_NE(write().find("holds what another program saved"), std::string::npos);
  remove_all(in("adapter_config.json"));
  write_file_atomically(in("notes.txt"), "mine");
  EXPECT_NE(write().find("\"notes.txt\""), std::string::npos);
  EXPECT_EQ(read_file(in("notes.txt"), 99), "mine");
  remove_all(folder_);
  write_file_atomically(folder_, "mine");
  EXPECT_NE(error_of([&] { require_replaceable(folder_); }).find("is a file"), std::string::npos);
  EXPECT_EQ(read_file(folder_, 99), "mine");
}

TEST_F(HfFolder, KeepsChatTemplatesThatDidNotComeWithTheModel) {
  const ModelConfig config = tiny_llama();
  const Parameters parameters(config);
  const auto write = [&] {
    return error_of([&] { write_hf_folder(folder_, config, parameters.reader()); });
  };
  EXPECT_EQ(write(), "accepted");
  make_folders(in("additional_chat_templates"));
  write_file_atomically(in("additional_chat_templates/mine.jinja"), "mine");
  EXPECT_NE(write().find("additional_chat_templates/mine.jinja\", which did not come"),
            std::string::npos);
  EXPECT_EQ(read_file(in("additional_chat_templates/mine.jinja"), 99), "mine");
  EXPECT_TRUE(is_file(in("model.safetensors")));
}

TEST_F(HfFolder, ReplacesItsOwnWhateverTheModelItWasMadeOfSaid) {
  const ModelConfig config = tiny_llama();
  const Parameters parameters(config);
  ModelSettings settings;
  settings.config["transformers_version"] = "5.0";
  for (int again = 0; again < 2; ++again)
    EXPECT_EQ(error_of([&] {
                write_hf_folder(folder_, config, parameters.reader(), {.settings = &settings});
              }),
              "accepted");
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
    write_hf_folder(folder_, config, parameters.reader(), options);
    calls = counter.calls();
  }
  EXPECT_GT(calls, 30);
  for (int64_t call = 1; call <= calls; ++call) {
    {
      const FileFaults faults(call, ENOSPC);
      EXPECT_THROW(write_hf_folder(folder_, config, parameters.reader(), options), Error);
    }
    Parameters read(config);
    read_hf_weights(folder_, config, read.writer());
    EXPECT_TRUE(read == parameters) << call;
  }
}

}  // namespace
}  // namespace ng::io
