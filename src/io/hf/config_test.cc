#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "io/hf/folder.h"
#include "model/architecture.h"

namespace ng::io {
namespace {

Json gpt2_json() {
  return {{"model_type", "gpt2"}, {"vocab_size", 50257}, {"n_positions", 1024},
          {"n_embd", 768},        {"n_layer", 12},       {"n_head", 12}};
}

Json llama_json() {
  return {{"model_type", "llama"},          {"vocab_size", 32000},    {"hidden_size", 96},
          {"intermediate_size", 256},       {"num_hidden_layers", 3}, {"num_attention_heads", 6},
          {"max_position_embeddings", 512}, {"rms_norm_eps", 1e-5}};
}

ModelConfig parsed(Json json, const Json& changes) {
  json.merge_patch(changes);
  return parse_hf_config(json, "config.json");
}

std::string config_error(Json json, const Json& changes) {
  for (const auto& [key, value] : changes.items()) json[key] = value;
  try {
    (void)parse_hf_config(json, "c");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(HfConfig, DefaultsAreThoseOfTransformers) {
  const ModelConfig gpt2 = parsed(gpt2_json(), {{"n_inner", nullptr}});
  EXPECT_EQ(gpt2, model_preset("gpt2-124m"));
  const ModelConfig llama = parsed(llama_json(), Json::object());
  EXPECT_EQ(llama.kv_heads, 6);
  EXPECT_EQ(llama.head_dim, 16);
  EXPECT_EQ(llama.rope_theta, 10000.0f);
  EXPECT_EQ(llama.norm_eps, 1e-5f);
  EXPECT_FALSE(llama.tie_embeddings || llama.attention_bias || llama.mlp_bias || llama.norm_bias);
  EXPECT_EQ(parsed(llama_json(), {{"rms_norm_eps", nullptr}}).norm_eps, 1e-6f);
}

TEST(HfConfig, RopeThetaInBothSpellings) {
  EXPECT_EQ(parsed(llama_json(), {{"rope_theta", 5e5}, {"rope_scaling", nullptr}}).rope_theta,
            5e5f);
  EXPECT_EQ(parsed(llama_json(), {{"rope_theta", 500000}}).rope_theta, 5e5f);
  const Json inner = {{"rope_theta", 2e4}, {"rope_type", "default"}};
  EXPECT_EQ(parsed(llama_json(), {{"rope_parameters", inner}}).rope_theta, 2e4f);
  EXPECT_EQ(parsed(llama_json(), {{"rope_parameters", inner}, {"rope_theta", 2e4}}).rope_theta,
            2e4f);
  EXPECT_EQ(parsed(llama_json(), {{"rope_scaling", {{"type", "default"}}}}).rope_theta, 1e4f);
  EXPECT_EQ(config_error(llama_json(), {{"rope_parameters", inner}, {"rope_theta", 1e4}}),
            "c: rope_parameters.rope_theta: 20000 contradicts the rope_theta 10000 above it: write "
            "one of them");
  EXPECT_EQ(config_error(llama_json(), {{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}}),
            "c: rope_scaling.type: \"linear\" is not supported: \"default\" or \"llama3\"");
  EXPECT_EQ(config_error(llama_json(), {{"rope_parameters", {{"rope_type", "llama3"}}}}),
            "c: rope_parameters.factor: missing: a number from 1 to 1000000");
}

Json llama3_rope() {
  return {{"rope_type", "llama3"},  {"factor", 8.0},
          {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0},
          {"rope_theta", 500000.0}, {"original_max_position_embeddings", 256}};
}

TEST(HfConfig, RopeScalingOfLlama3InBothSpellings) {
  const RopeScaling expected{
      .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_context = 256};
  const ModelConfig inner = parsed(llama_json(), {{"rope_parameters", llama3_rope()}});
  EXPECT_EQ(inner.rope_scaling, expected);
  EXPECT_EQ(inner.rope_theta, 5e5f);
  Json old = llama3_rope();
  old.erase("rope_theta");
  EXPECT_EQ(parsed(llama_json(), {{"rope_scaling", old}, {"rope_theta", 5e5}}), inner);
  EXPECT_EQ(parsed(llama_json(), {{"rope_scaling", old}, {"rope_parameters", llama3_rope()}}),
            inner);
  old.erase("original_max_position_embeddings");
  EXPECT_EQ(parsed(llama_json(), {{"rope_scaling", old}}).rope_scaling.original_context, 512);
  EXPECT_EQ(parsed(llama_json(), {{"rope_scaling", old}, {"original_max_position_embeddings", 64}})
                .rope_scaling.original_context,
            64);
  EXPECT_EQ(config_error(llama_json(), {{"rope_scaling", old}, {"rope_parameters", llama3_rope()}}),
            "c: rope_parameters: contradicts rope_scaling above it: write one of them");
  Json upside_down = llama3_rope();
  upside_down["low_freq_factor"] = 4.0;
  EXPECT_EQ(config_error(llama_json(), {{"rope_parameters", upside_down}}),
            "c: rope_parameters.high_freq_factor: 4: above low_freq_factor (4)");
}

Json as(const char* type, Json changes) {
  Json json = llama_json();
  json["model_type"] = type;
  json.update(changes);
  return json;
}

TEST(HfConfig, FamiliesOfLlamaHaveTheirDefaults) {
  const Json none = Json::object();
  EXPECT_EQ(config_error(as("mistral", none), none),
            "c: num_key_value_heads: 8: a divisor of num_attention_heads (6)");
  const ModelConfig mistral =
      parsed(as("mistral", {{"num_key_value_heads", nullptr}, {"attention_bias", true}}), none);
  EXPECT_EQ(mistral.kv_heads, 6);
  EXPECT_FALSE(mistral.attention_bias) << "no key of Mistral's";
  const Json kv = {{"num_key_value_heads", 2}};
  const ModelConfig qwen2 = parsed(as("qwen2", kv), none);
  EXPECT_TRUE(qwen2.attention_bias);
  EXPECT_FALSE(qwen2.mlp_bias);
  EXPECT_EQ(qwen2.head_dim, 16);
  const ModelConfig qwen3 = parsed(as("qwen3", kv), none);
  EXPECT_EQ(qwen3.head_dim, 128);
  EXPECT_FALSE(qwen3.attention_bias);
  EXPECT_TRUE(parsed(as("qwen3", kv), {{"attention_bias", true}}).attention_bias);
}

TEST(HfConfig, NamesBadKeys) {
  const std::pair<Json, std::string> kGpt2Cases[] = {
      {{{"n_embd", nullptr}}, "c: n_embd: missing"},
      {{{"n_embd", "768"}}, "c: n_embd: \"768\": an integer from 1 to"},
      {{{"n_embd", -768}}, "c: n_embd: -768: an integer from 1 to"},
      {{{"n_embd", 768.5}}, "c: n_embd: 768.5: an integer"},
      {{{"n_layer", 18446744073709551615u}}, "c: n_layer: 18446744073709551615: an integer"},
      {{{"n_head", 5}}, "c: n_head: 5: a divisor of n_embd (768)"},
      {{{"n_head", 0}}, "c: n_head: 0: an integer from 1"},
      {{{"activation_function", "relu"}},
       "c: activation_function: \"relu\" is not supported: gelu_new gelu_pytorch_tanh gelu"},
      {{{"layer_norm_epsilon", "x"}}, "c: layer_norm_epsilon: \"x\": a number"},
      {{{"tie_word_embeddings", 1}}, "c: tie_word_embeddings: 1: true or false"},
      {{{"scale_attn_weights", false}}, "c: scale_attn_weights: false is not supported: true"},
      {{{"add_cross_attention", true}}, "c: add_cross_attention: true is not supported: false"},
      {{{"model_type", "bert"}},
       "c: model_type: \"bert\" is not supported: gpt2 llama mistral qwen2 qwen3"},
      {{{"model_type", nullptr}}, "c: model_type: missing"},
      {{{"quantization_config", {{"bits", 4}}}}, "c: quantization_config.quant_method: missing"},
      {{{"quantization_config", {{"quant_method", "gptq"}}}},
       "c: quantization_config.quant_method: \"gptq\" is not supported: compressed-tensors, fp8"},
      {{{"quantization_config",
         {{"quant_method", "compressed-tensors"}, {"format", "int-quantized"}}}},
       "c: quantization_config.format: \"int-quantized\" is not supported: nvfp4-pack"},
      {{{"quantization_config", {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}}}},
       "c: quantization_config: quantized weights of gpt2 are not supported"},
      {{{"vocab_size", 20000000}}, "c: vocab_size: 20000000: a whole number from 1 to"},
      {{{"n_layer", 10001}}, "c: n_layer: 10001: a whole number from 1 to"},
      {{{"n_positions", 20000000}}, "c: n_positions: 20000000: a whole number from 1 to"},
      {{{"n_embd", 999996}}, "c: n_embd: 999996 over n_head (12) is 83333: a whole number"},
  };
  for (const auto& [changes, says] : kGpt2Cases) {
    EXPECT_EQ(config_error(gpt2_json(), changes).substr(0, says.size()), says);
  }
  const std::pair<Json, std::string> kLlamaCases[] = {
      {{{"num_key_value_heads", 4}},
       "c: num_key_value_heads: 4: a divisor of num_attention_heads (6)"},
      {{{"hidden_size", 100}}, "c: num_attention_heads: 6: a divisor of hidden_size (100)"},
      {{{"hidden_act", "gelu"}}, "c: hidden_act: \"gelu\" is not supported: \"silu\""},
      {{{"head_dim", 7}}, "c: head_dim: 7: an even number"},
      {{{"rope_theta", 0}}, "c: rope_theta: 0: a number from"},
      {{{"rope_scaling", "linear"}}, "c: rope_scaling: \"linear\" is not an object"},
      {{{"partial_rotary_factor", 0.5}}, "c: partial_rotary_factor: 0.5: 1.0"},
      {{{"num_hidden_layers", 10001}}, "c: num_hidden_layers: 10001: a whole number from 1 to"},
      {{{"hidden_size", 6000006}},
       "c: hidden_size: 6000006 over num_attention_heads (6) is 1000001"},
      {{{"hidden_size", 18}}, "c: hidden_size: 18 over num_attention_heads (6) is 3: an even"},
      {{{"head_dim", 65538}}, "c: head_dim: 65538: a whole number from 1 to"},
      {{{"rms_norm_eps", 1.0}}, "c: rms_norm_eps: 1: between 0 and 1"},
  };
  for (const auto& [changes, says] : kLlamaCases) {
    EXPECT_EQ(config_error(llama_json(), changes).substr(0, says.size()), says);
  }
}

TEST(HfConfig, NamesTheKeyOfAVocabularyThatIsTooSmall) {
  ModelConfig config = model_preset("gpt2-124m");
  config.vocab = 255;
  try {
    require_vocabulary("m", config, 256);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("m/config.json: vocab_size: 255: at least 256"), 0u);
  }
  EXPECT_NO_THROW(require_vocabulary("m", config, 255));
}

TEST(HfConfig, WrittenTextReadsBack) {
  for (const std::string_view name : model_preset_names()) {
    ModelConfig config = model_preset(name);
    config.norm_eps = 1.25e-7f;
    config.init_std = 0.1f;
    const std::string text = hf_config_text(config, "float32");
    EXPECT_EQ(parse_hf_config(parse_json(text, ""), ""), config) << text;
    EXPECT_NE(text.find("\"initializer_range\": 0.1,"), std::string::npos) << text;
  }
}

TEST(HfConfig, WrittenTextKeepsTheModelType) {
  for (const std::string_view name : architecture_names()) {
    if (name == "gpt2") continue;
    ModelConfig config = model_preset("llama-134m");
    config.architecture = find_architecture(name)->architecture;
    config.attention_bias = name == "qwen2";
    config.head_dim = 32;
    for (const int64_t original : {0, 1024}) {
      config.rope_scaling = {.factor = 2.5, .original_context = original};
      if (original == 0) config.rope_scaling = {};
      const std::string text = hf_config_text(config, "bfloat16");
      EXPECT_EQ(parse_hf_config(parse_json(text, ""), ""), config) << text;
      EXPECT_EQ(parse_json(text, "")["model_type"], name);
    }
  }
}

// llama.cpp's converter reads the context from there.
TEST(HfConfig, NamesGpt2sContextTwice) {
  const Json json = parse_json(hf_config_text(model_preset("gpt2-124m"), "float32"), "");
  EXPECT_EQ(json.at("n_positions"), 1024);
  EXPECT_EQ(json.at("n_ctx"), 1024);
}

}  // namespace
}  // namespace ng::io
