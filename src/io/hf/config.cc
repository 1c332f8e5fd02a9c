// config.json <-> ModelConfig.
#include <fmt/ranges.h>

#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/json_number.h"
#include "io/hf/folder.h"
#include "io/hf/names.h"
#include "io/hf/quantized_layout.h"
#include "io/hf/rope.h"
#include "io/hf/windows.h"
#include "io/model_settings.h"
#include "model/architecture.h"

namespace ng::io {
namespace {

int64_t size(const JsonObject& json, std::string_view key) {
  return json.integer(key, 1, kMaxModelSize);
}

int64_t size_or(const JsonObject& json, std::string_view key, int64_t otherwise) {
  return json.integer_or(key, 1, kMaxModelSize, otherwise);
}

void require_divisor(const JsonObject& json, std::string_view key, int64_t divisor,
                     std::string_view of, int64_t number) {
  if (number % divisor == 0) return;
  json.refuse(key, fmt::format("{}", divisor), fmt::format("a divisor of {} ({})", of, number));
}

/// A setting of which this program knows one value.
void require_boolean(const JsonObject& json, std::string_view key, bool value) {
  if (json.boolean_or(key, value) == value) return;
  json.refuse(key, fmt::format("{} is not supported", !value), fmt::format("{}", value));
}

/// Layouts of quantized weights are those of Linear modules, which GPT-2 has none of.
void require_known_quantization(const JsonObject& json, Architecture architecture) {
  const QuantizedLayout layout = parse_quantized_layout(json);
  if (!layout.is_quantized || architecture != Architecture::gpt2) return;
  json.refuse("quantization_config", "quantized weights of gpt2 are not supported",
              "a folder with F32, BF16 or F16 weights");
}

void read_common(const JsonObject& json, std::string_view eps_key, double eps,
                 ModelConfig* config) {
  config->vocab = size(json, "vocab_size");
  config->norm_eps = static_cast<float>(json.number_or(eps_key, 1e-30, 1.0, eps));
  config->init_std = static_cast<float>(json.number_or("initializer_range", 0.0, 10.0, 0.02));
}

GeluKind read_gelu(const JsonObject& json) {
  const std::string name = json.text_or("activation_function", "gelu_new");
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return GeluKind::tanh;
  if (name == "gelu") return GeluKind::erf;
  json.refuse("activation_function", fmt::format("\"{}\" is not supported", name),
              "gelu_new gelu_pytorch_tanh gelu");
}

ModelConfig parse_gpt2(const JsonObject& json) {
  ModelConfig config{.architecture = Architecture::gpt2};
  read_common(json, "layer_norm_epsilon", 1e-5, &config);
  config.context = size(json, "n_positions");
  config.width = size(json, "n_embd");
  config.layers = size(json, "n_layer");
  config.heads = size(json, "n_head");
  require_divisor(json, "n_head", config.heads, "n_embd", config.width);
  config.kv_heads = config.heads;
  config.head_dim = config.width / config.heads;
  config.ffn = size_or(json, "n_inner", 4 * config.width);
  config.gelu = read_gelu(json);
  config.tie_embeddings = json.boolean_or("tie_word_embeddings", true);
  const bool bias = json.boolean_or("bias", true);
  config.attention_bias = json.boolean_or("attention_bias", bias);
  config.mlp_bias = json.boolean_or("mlp_bias", bias);
  config.norm_bias = json.boolean_or("norm_bias", bias);
  require_boolean(json, "scale_attn_weights", true);
  require_boolean(json, "scale_attn_by_inverse_layer_idx", false);
  require_boolean(json, "add_cross_attention", false);
  return config;
}

/// What transformers takes for a missing key of an architecture; 0: what follows from others.
struct Defaults {
  int64_t kv_heads = 0, head_dim = 0;
};

// [transformers 5.24, models/*/configuration_*.py]
Defaults defaults_of(Architecture architecture) {
  switch (architecture) {
    case Architecture::mistral:
      return {.kv_heads = 8};
    case Architecture::qwen2:
      return {.kv_heads = 32};
    case Architecture::qwen3:
      return {.kv_heads = 32, .head_dim = 128};
    default:
      return {};
  }
}

void read_heads(const JsonObject& json, ModelConfig* config) {
  const Defaults defaults = defaults_of(config->architecture);
  config->heads = size(json, "num_attention_heads");
  const bool follows = defaults.kv_heads == 0 || json.value().contains("num_key_value_heads");
  config->kv_heads =
      size_or(json, "num_key_value_heads", follows ? config->heads : defaults.kv_heads);
  require_divisor(json, "num_key_value_heads", config->kv_heads, "num_attention_heads",
                  config->heads);
  if (!json.has("head_dim") && defaults.head_dim == 0)
    require_divisor(json, "num_attention_heads", config->heads, "hidden_size", config->width);
  config->head_dim = size_or(
      json, "head_dim", defaults.head_dim > 0 ? defaults.head_dim : config->width / config->heads);
}

/// What an architecture always has, transformers reads from no key.
bool read_bias(const JsonObject& json, std::string_view key, const std::optional<bool>& always) {
  return always ? *always : json.boolean_or(key, false);
}

ModelConfig parse_llama(const JsonObject& json, const ArchitectureParts& parts) {
  ModelConfig config{.architecture = parts.architecture};
  read_common(json, "rms_norm_eps", 1e-6, &config);
  config.context = size(json, "max_position_embeddings");
  config.width = size(json, "hidden_size");
  config.ffn = size(json, "intermediate_size");
  config.layers = size(json, "num_hidden_layers");
  read_heads(json, &config);
  const std::string activation = json.text_or("hidden_act", "silu");
  if (activation != "silu" && activation != "swish")
    json.refuse("hidden_act", fmt::format("\"{}\" is not supported", activation), "\"silu\"");
  read_hf_rope(json, &config);
  config.attention_bias = read_bias(json, "attention_bias", parts.attention_bias);
  config.mlp_bias = read_bias(json, "mlp_bias", parts.mlp_bias);
  config.norm_bias = false;
  config.tie_embeddings = json.boolean_or("tie_word_embeddings", false);
  return config;
}

/// What a size is called: in ModelConfig and by each architecture's config.json.
struct SizeKey {
  std::string_view own, gpt2, llama;
};
constexpr SizeKey kSizeKeys[] = {{"vocab", "vocab_size", "vocab_size"},
                                 {"layers", "n_layer", "num_hidden_layers"},
                                 {"heads", "n_head", "num_attention_heads"},
                                 {"kv_heads", "n_head", "num_key_value_heads"},
                                 {"head_dim", "head_dim", "head_dim"},
                                 {"width", "n_embd", "hidden_size"},
                                 {"ffn", "n_inner", "intermediate_size"},
                                 {"context", "n_positions", "max_position_embeddings"},
                                 {"norm_eps", "layer_norm_epsilon", "rms_norm_eps"},
                                 {"init_std", "initializer_range", "initializer_range"}};

std::string_view file_key(const ModelConfig& config, std::string_view own) {
  for (const SizeKey& key : kSizeKeys)
    if (key.own == own) return config.architecture == Architecture::gpt2 ? key.gpt2 : key.llama;
  return own;
}

/// validate(), in the words of the file.
void validate_file(const JsonObject& json, const ModelConfig& config) {
  try {
    validate(config, json.place());
  } catch (const Error& error) {
    const auto& [place, own, problem, remedy] = error.parts();
    if (own != "head_dim" || json.has(own)) json.refuse(file_key(config, own), problem, remedy);
    json.refuse(file_key(config, "width"),
                fmt::format("{} over {} ({}) is {}", config.width, file_key(config, "heads"),
                            config.heads, config.head_dim),
                remedy);
  }
}

void add_gpt2(const ModelConfig& config, OrderedJson* json) {
  (*json)["n_positions"] = config.context;
  (*json)["n_ctx"] = config.context;  // for llama.cpp's converter
  (*json)["n_embd"] = config.width;
  (*json)["n_layer"] = config.layers;
  (*json)["n_head"] = config.heads;
  (*json)["n_inner"] = config.ffn;
  (*json)["activation_function"] = config.gelu == GeluKind::tanh ? "gelu_new" : "gelu";
  (*json)["layer_norm_epsilon"] = shortest_decimal(config.norm_eps);
  for (const char* key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) (*json)[key] = 0.0;
  if (config.attention_bias && config.mlp_bias && config.norm_bias) return;
  if (!config.attention_bias && !config.mlp_bias && !config.norm_bias) {
    (*json)["bias"] = false;
    return;
  }
  (*json)["attention_bias"] = config.attention_bias;
  (*json)["mlp_bias"] = config.mlp_bias;
  (*json)["norm_bias"] = config.norm_bias;
}

void add_llama(const ModelConfig& config, OrderedJson* json) {
  const ArchitectureParts& parts = parts_of(config.architecture);
  (*json)["max_position_embeddings"] = config.context;
  (*json)["hidden_size"] = config.width;
  (*json)["intermediate_size"] = config.ffn;
  (*json)["num_hidden_layers"] = config.layers;
  (*json)["num_attention_heads"] = config.heads;
  (*json)["num_key_value_heads"] = config.kv_heads;
  (*json)["head_dim"] = config.head_dim;
  (*json)["hidden_act"] = "silu";
  (*json)["rms_norm_eps"] = shortest_decimal(config.norm_eps);
  add_hf_rope(config, json);
  if (!parts.attention_bias) (*json)["attention_bias"] = config.attention_bias;
  if (!parts.mlp_bias) (*json)["mlp_bias"] = config.mlp_bias;
  (*json)["attention_dropout"] = 0.0;
  add_hf_windows(config, json);
}

}  // namespace

ModelConfig parse_hf_config(const Json& json, const std::string& place) {
  const JsonObject object(json, place);
  const std::string type = object.text("model_type");
  const ArchitectureParts* parts = find_architecture(type);
  if (parts == nullptr)
    object.refuse("model_type", brief(Json(type)) + " is not supported",
                  fmt::format("{}", fmt::join(architecture_names(), " ")));
  const bool is_gpt2 = parts->architecture == Architecture::gpt2;
  ModelConfig config = is_gpt2 ? parse_gpt2(object) : parse_llama(object, *parts);
  require_known_quantization(object, config.architecture);
  validate_file(object, config);
  if (!is_gpt2) config.windows = read_hf_windows(object, config);
  return config;
}

ModelConfig read_hf_config(const std::string& folder) {
  const std::string path = join_path(folder, kHfConfig);
  return parse_hf_config(read_json_file(path, kMaxHfConfigBytes), path);
}

void require_vocabulary(const std::string& folder, const ModelConfig& config, int64_t ids) {
  if (config.vocab >= ids) return;
  throw Error(
      {.place = join_path(folder, kHfConfig),
       .key = std::string(file_key(config, "vocab")),
       .problem = fmt::format("{}", config.vocab),
       .remedy = fmt::format("at least {}, which the tokenizer has, or another tokenizer", ids)});
}

std::string hf_config_text(const ModelConfig& config, std::string_view dtype,
                           const ModelSettings* settings) {
  const ArchitectureParts& parts = parts_of(config.architecture);
  OrderedJson json;
  json["architectures"] = {parts.hf_class};
  json["model_type"] = parts.name;
  json["vocab_size"] = config.vocab;
  if (config.architecture == Architecture::gpt2)
    add_gpt2(config, &json);
  else
    add_llama(config, &json);
  json["tie_word_embeddings"] = config.tie_embeddings;
  json["initializer_range"] = shortest_decimal(config.init_std);
  for (const char* key : {kBosKey, kEosKey, kPadKey})  // null: a class has ids of its own else
    json[key] = nullptr;
  json["dtype"] = dtype;
  json["torch_dtype"] = dtype;  // for transformers 4
  if (settings != nullptr)
    for (const auto& [key, value] : settings->config.items())
      if (!json.contains(key) || json.at(key).is_null()) json[key] = value;
  return json_text(json, 2) + "\n";
}

}  // namespace ng::io
