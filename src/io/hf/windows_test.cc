// Windows of a config.json, as transformers 5.24 takes its keys (configuration_mistral.py,
// configuration_qwen2.py, configuration_qwen3.py).
#include "io/hf/windows.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "io/hf/folder.h"

namespace ng::io {
namespace {

/// Three layers, a context of 512.
Json three_layers(const char* type, const Json& changes) {
  Json json = {{"model_type", type},       {"vocab_size", 32000},
               {"hidden_size", 96},        {"intermediate_size", 256},
               {"num_hidden_layers", 3},   {"num_attention_heads", 6},
               {"num_key_value_heads", 2}, {"max_position_embeddings", 512}};
  json.update(changes);
  return json;
}

Windows windows_of(const char* type, const Json& changes) {
  return parse_hf_config(three_layers(type, changes), "c").windows;
}

std::string windows_error(const char* type, const Json& changes) {
  try {
    (void)parse_hf_config(three_layers(type, changes), "c");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

const Windows kNoWindows;

Windows windows_in(int64_t size, std::vector<bool> layers) {
  return {.size = size, .layers = std::move(layers)};
}

Json layer_types(const std::string& letters) {
  Json list = Json::array();
  for (const char letter : letters)
    list.push_back(letter == 's' ? "sliding_attention" : "full_attention");
  return list;
}

TEST(HfWindows, MistralHasTheWindowOfItsKey) {
  EXPECT_EQ(windows_of("mistral", {{"sliding_window", nullptr}}), kNoWindows);
  EXPECT_EQ(windows_of("mistral", {{"sliding_window", 4}}), windows_in(4, {}));
  EXPECT_EQ(windows_of("mistral", {{"sliding_window", 511}}), windows_in(511, {}));
  EXPECT_EQ(windows_of("mistral", Json::object()), kNoWindows) << "4096 by default";
  EXPECT_EQ(windows_of("mistral", {{"max_position_embeddings", 4097}}), windows_in(4096, {}));
  EXPECT_EQ(windows_of("mistral", {{"sliding_window", 4}, {"max_window_layers", 2}}),
            windows_in(4, {}))
      << "no key of Mistral's";
}

TEST(HfWindows, QwenHasThemWhereTheyAreUsedFromALayerOn) {
  for (const char* type : {"qwen2", "qwen3"}) {
    const auto used = [&](Json changes) {
      changes["use_sliding_window"] = true;
      return windows_of(type, changes);
    };
    EXPECT_EQ(windows_of(type, {{"sliding_window", 4}, {"max_window_layers", 0}}), kNoWindows);
    EXPECT_EQ(used({{"sliding_window", 4}, {"max_window_layers", 0}}), windows_in(4, {}));
    EXPECT_EQ(used({{"sliding_window", 4}, {"max_window_layers", 1}}),
              windows_in(4, {false, true, true}));
    EXPECT_EQ(used({{"sliding_window", 4}, {"layer_types", layer_types("sfs")}}),
              windows_in(4, {true, false, true}));
    EXPECT_EQ(
        used(
            {{"sliding_window", 4}, {"max_window_layers", 3}, {"layer_types", layer_types("sss")}}),
        windows_in(4, {}))
        << "the list counts";
    EXPECT_EQ(used({{"max_window_layers", 0}, {"max_position_embeddings", 5000}}),
              windows_in(4096, {}));
  }
}

TEST(HfWindows, ThoseThatNeverBindAreNone) {
  EXPECT_EQ(windows_of("mistral", {{"sliding_window", 512}}), kNoWindows);
  EXPECT_EQ(windows_of("mistral", {{"sliding_window", INT64_MAX}}), kNoWindows);
  EXPECT_EQ(windows_of("mistral", {{"sliding_window", 4096}, {"layer_types", layer_types("fff")}}),
            kNoWindows);
  for (const char* type : {"llama", "qwen2", "qwen3"}) {
    const auto used = [&](Json changes) {
      changes["use_sliding_window"] = true;
      return windows_of(type, changes);
    };
    EXPECT_EQ(used({{"sliding_window", 4}}), kNoWindows) << "max_window_layers is 28 by default";
    EXPECT_EQ(used({{"sliding_window", 4}, {"max_window_layers", 3}}), kNoWindows);
    EXPECT_EQ(used({{"sliding_window", 512}, {"max_window_layers", 0}}), kNoWindows);
    EXPECT_EQ(used({{"sliding_window", nullptr}, {"max_window_layers", 0}}), kNoWindows);
    EXPECT_EQ(used({{"sliding_window", 4}, {"layer_types", layer_types("fff")}}), kNoWindows);
    EXPECT_EQ(windows_of(type, {{"sliding_window", 4}, {"layer_types", layer_types("fff")}}),
              kNoWindows);
  }
}

TEST(HfWindows, RefusesWhatContradictsItself) {
  const Json used = {{"use_sliding_window", true}, {"sliding_window", 4}};
  const auto with = [&](const char* key, const Json& value) {
    Json json = used;
    json[key] = value;
    return json;
  };
  EXPECT_EQ(
      windows_error("llama", with("max_window_layers", 1)),
      "c: use_sliding_window: true with windows of 4 tokens in 2 of 3 layers: false, as llama "
      "has no windows");
  EXPECT_EQ(windows_error("qwen2", with("sliding_window", 0)),
            "c: sliding_window: 0: an integer from 1 to 9223372036854775807");
  EXPECT_EQ(windows_error("mistral", {{"sliding_window", "4"}}),
            "c: sliding_window: \"4\": an integer from 1 to 9223372036854775807");
  EXPECT_EQ(windows_error("qwen2", with("max_window_layers", -1)),
            "c: max_window_layers: -1: an integer from 0 to 9223372036854775807");
  EXPECT_EQ(windows_error("qwen2", with("use_sliding_window", 1)),
            "c: use_sliding_window: 1: true or false");
  EXPECT_EQ(windows_error("qwen3", with("layer_types", layer_types("fs"))),
            "c: layer_types: 2 layers: num_hidden_layers (3)");
  for (const char* type : {"llama", "mistral", "qwen2"})
    EXPECT_EQ(windows_error(type, {{"layer_types", layer_types("ffff")}}),
              "c: layer_types: 4 layers: num_hidden_layers (3)");
  EXPECT_EQ(windows_error("qwen3", with("layer_types", "full_attention")),
            "c: layer_types: \"full_attention\": a list of \"full_attention\" or "
            "\"sliding_attention\"");
  EXPECT_EQ(windows_error("qwen3", with("layer_types", {"chunked_attention"})),
            "c: layer_types: \"chunked_attention\" is not supported: \"full_attention\" or "
            "\"sliding_attention\"");
  EXPECT_EQ(windows_error("qwen2", {{"sliding_window", 4}, {"layer_types", layer_types("ffs")}}),
            "c: layer_types: \"sliding_attention\" without a window: use_sliding_window and "
            "sliding_window, or \"full_attention\" alone");
  EXPECT_EQ(windows_error("mistral", {{"sliding_window", 4}, {"layer_types", layer_types("fss")}}),
            "c: layer_types: \"full_attention\" beside sliding_window 4, which mistral has in all "
            "layers: \"sliding_attention\" alone, or sliding_window null");
}

TEST(HfWindows, AreWrittenAsTransformersReadsThem) {
  const auto written = [](const char* type, const Json& changes) {
    ModelConfig config = parse_hf_config(three_layers(type, changes), "c");
    const Json json = parse_json(hf_config_text(config, "float32"), "");
    EXPECT_EQ(parse_hf_config(json, "c"), config) << json;
    return json;
  };
  EXPECT_EQ(written("mistral", {{"sliding_window", 4}}).at("sliding_window"), 4);
  EXPECT_EQ(written("mistral", {{"sliding_window", 512}}).at("sliding_window"), nullptr);
  const Json none = written("qwen2", Json::object());
  EXPECT_EQ(none.at("use_sliding_window"), false);
  EXPECT_FALSE(none.contains("layer_types") || none.contains("sliding_window"));
  EXPECT_FALSE(written("llama", Json::object()).contains("use_sliding_window"));
  for (const std::string letters : {"fss", "sfs", "sss", "sff"}) {
    const Json json = written("qwen3", {{"use_sliding_window", true},
                                        {"sliding_window", 4},
                                        {"layer_types", layer_types(letters)}});
    EXPECT_EQ(json.at("use_sliding_window"), true);
    EXPECT_EQ(json.at("sliding_window"), 4);
    EXPECT_EQ(json.at("max_window_layers"), letters.find('s'));
    EXPECT_EQ(json.at("layer_types"), layer_types(letters));
  }
}

}  // namespace
}  // namespace ng::io
