#include "io/model_settings.h"

#include <gtest/gtest.h>

#include "base/files.h"
#include "io/gguf/gguf.h"
#include "io/hf/folder.h"
#include "support/hf_models.h"

namespace ng::io {
namespace {

class ModelSettingsTest : public ScratchFolder {
 protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    make_folders(folder_);
  }
  [[nodiscard]] ModelSettings settings(const std::string& config,
                                       const std::string& generation = "") const {
    write_file_atomically(in("config.json"), config);
    if (!generation.empty()) write_file_atomically(in("generation_config.json"), generation);
    return read_model_settings(folder_);
  }
  [[nodiscard]] std::string refused(const std::string& generation) const {
    const ModelSettings read = settings("{}", generation);
    return error_of([&] { (void)end_tokens(read); }).substr(folder_.size() + 1);
  }
};

using Ids = std::vector<int32_t>;

TEST_F(ModelSettingsTest, GenerationComesBeforeConfiguration) {
  EXPECT_EQ(end_tokens(settings("{}")), Ids());
  EXPECT_EQ(end_tokens(settings(R"({"eos_token_id": 3})")), Ids{3});
  EXPECT_EQ(end_tokens(settings(R"({"eos_token_id": 3})", R"({"eos_token_id": null})")), Ids{3});
  EXPECT_EQ(end_tokens(settings(R"({"eos_token_id": 3})", R"({"eos_token_id": [7, 3, 7]})")),
            (Ids{7, 3}));
}

TEST_F(ModelSettingsTest, NamesWhatIsNoId) {
  const std::string said = "generation_config.json: eos_token_id: ";
  const std::string remedy = ": a token id, or a list of them";
  EXPECT_EQ(refused(R"({"eos_token_id": "x"})"), said + "\"x\"" + remedy);
  EXPECT_EQ(refused(R"({"eos_token_id": [1, -1]})"), said + "[1,-1]" + remedy);
  EXPECT_EQ(refused(R"({"eos_token_id": 4294967296})"), said + "4294967296" + remedy);
  EXPECT_EQ(refused(R"({"eos_token_id": 1.5})"), said + "1.5" + remedy);
  write_file_atomically(in("generation_config.json"), "[]");
  EXPECT_NE(error_of([&] { (void)read_model_settings(folder_); }).find("generation_config.json"),
            std::string::npos);
}

TEST_F(ModelSettingsTest, WhatOneFileLacksComesFromTheOtherThenTheTokenizer) {
  const SpecialIds tokenizer{.bos = 1, .end = 2, .pad = 30};
  ModelSettings read =
      settings(R"({"eos_token_id": [4, 5]})", R"({"bos_token_id": 6, "top_p": 0.5})");
  add_special_ids(tokenizer, 20, &read);
  EXPECT_EQ(json_text(read.config), R"({"eos_token_id":[4,5],"bos_token_id":6})");
  EXPECT_EQ(json_text(read.generation), R"({"bos_token_id":6,"top_p":0.5,"eos_token_id":[4,5]})")
      << "30 is no id of the model";
  ModelSettings none;
  add_special_ids(tokenizer, 31, &none);
  EXPECT_EQ(json_text(none.config), R"({"bos_token_id":1,"eos_token_id":2,"pad_token_id":30})");
  EXPECT_EQ(json_text(none.generation),
            R"({"_from_model_config":true,"bos_token_id":1,"eos_token_id":2,"pad_token_id":30})");
}

TEST_F(ModelSettingsTest, AnotherTokenizerSaysItFirst) {
  ModelSettings read =
      settings(R"({"eos_token_id": [4, 5], "bos_token_id": 3})", R"({"eos_token_id": 4})");
  take_special_ids({.bos = {}, .end = 5, .pad = 7}, &read);
  EXPECT_EQ(json_text(read.config), R"({"eos_token_id":[4,5],"bos_token_id":3,"pad_token_id":7})")
      << "5 is one of its ends";
  EXPECT_EQ(json_text(read.generation), R"({"eos_token_id":5,"pad_token_id":7})");
}

// What adapters learned by stands in their folder.
TEST_F(ModelSettingsTest, AdaptersSayItFirst) {
  (void)settings(R"({"eos_token_id": 3, "pad_token_id": 1})",
                 R"({"eos_token_id": [3, 4], "top_k": 5})");
  const std::string adapters = in("adapters");
  make_folders(adapters);
  const auto write = [&](const char* name, const Json& json) {
    write_file_atomically(join_path(adapters, name), json_text(json));
  };
  write("adapter_config.json",
        {{"peft_type", "LORA"}, {"r", 2}, {"lora_alpha", 2}, {"base_model_name_or_path", folder_}});
  EXPECT_EQ(end_tokens(read_model_settings(adapters)), (Ids{3, 4})) << "the base's";
  write("tokenizer.json", {{"model", {{"vocab", {{"</s>", 7}, {"<end>", 4}}}}}});
  write("tokenizer_config.json", {{"eos_token", "<end>"}});
  EXPECT_EQ(end_tokens(read_model_settings(adapters)), (Ids{3, 4})) << "one of them";
  write("tokenizer_config.json", {{"eos_token", "</s>"}});
  const ModelSettings named = read_model_settings(adapters);
  EXPECT_EQ(json_text(named.config), R"({"eos_token_id":7,"pad_token_id":1})");
  EXPECT_EQ(json_text(named.generation), R"({"eos_token_id":7,"top_k":5})");
  write("generation_config.json", {{"eos_token_id", {7, 3}}});
  EXPECT_EQ(end_tokens(read_model_settings(adapters)), (Ids{7, 3}));
}

TEST_F(ModelSettingsTest, KeysOfGgufBecomeThoseOfTheConfiguration) {
  const auto read = [&](const GgufKeys& keys) {
    GgufWriter(in("a.gguf"), keys, {}).commit();
    return json_text(read_model_settings(in("a.gguf")).config);
  };
  const std::string ggml = "tokenizer.ggml.";
  const auto u32 = [](uint32_t id) { return GgufValue::of_u32(id); };
  const std::pair tokens(ggml + "tokens", GgufValue::of_texts({"a", "<|endoftext|>", "c"}));
  EXPECT_EQ(read({tokens}), R"({"bos_token_id":null,"eos_token_id":1,"pad_token_id":null})")
      << "the usual end, as llama.cpp has it";
  EXPECT_EQ(read({tokens,
                  {ggml + "eos_token_id", u32(2)},
                  {ggml + "eot_token_id", u32(0)},
                  {ggml + "eom_token_id", u32(2)},
                  {ggml + "bos_token_id", u32(1)},
                  {ggml + "padding_token_id", u32(UINT32_MAX)}}),
            R"({"bos_token_id":1,"eos_token_id":[2,0],"pad_token_id":null})");
}

// Sizes are the model's own; what a plain model has no more stays behind.
TEST_F(ModelSettingsTest, AWrittenFolderHasThem) {
  const ModelConfig config = tiny_llama();
  const Parameters parameters(config);
  const ModelSettings read = settings(
      R"({"vocab_size": 5, "use_cache": true, "eos_token_id": 3, "bos_token_id": null,
          "quantization_config": {"quant_method": "fp8"}, "auto_map": {}, "pad_token_id": 0})",
      R"({"temperature": 0.7, "eos_token_id": [3, 1]})");
  write_hf_folder(in("out"), config, parameters.reader(), {.settings = &read});
  EXPECT_EQ(read_hf_config(in("out")), config);
  const Json written = read_json_file(in("out/config.json"), 1 << 20);
  EXPECT_EQ(written.at("eos_token_id"), 3);
  EXPECT_EQ(written.at("pad_token_id"), 0);
  EXPECT_TRUE(written.at("bos_token_id").is_null());
  EXPECT_EQ(written.at("use_cache"), true);
  EXPECT_FALSE(written.contains("quantization_config") || written.contains("auto_map"));
  EXPECT_EQ(read_json_file(in("out/generation_config.json"), 1 << 20),
            Json({{"temperature", 0.7}, {"eos_token_id", {3, 1}}, {"pad_token_id", 0}}));
}

}  // namespace
}  // namespace ng::io
