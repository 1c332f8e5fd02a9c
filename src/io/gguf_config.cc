// The keys of a model <-> ModelConfig. [interop.md 1.2]
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "io/gguf_model.h"
#include "model/architecture.h"

namespace ng::io {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 30;  // as in config.json
constexpr uint32_t kQuantizationVersion = 2;

struct FileType {
  std::string_view type;
  uint32_t id;
};
// [llama.cpp include/llama.h: enum llama_ftype]
constexpr std::array<FileType, 6> kFileTypes = {
    {{"F32", 0}, {"F16", 1}, {"Q8_0", 7}, {"BF16", 32}, {"MXFP4", 38}, {"NVFP4", 39}}};

uint32_t file_type(const std::string& type) {
  const auto* found = std::find_if(kFileTypes.begin(), kFileTypes.end(),
                                   [&](const FileType& each) { return each.type == type; });
  NG_CHECK(found != kFileTypes.end(), type);
  return found->id;
}

bool has_tensor(const Gguf& file, const char* name) { return file.find(name) != nullptr; }

/// llama.cpp's rope has ways of scaling that this program has not.
void refuse_rope(const Gguf& file, int64_t head_dim) {
  const std::string scaling = file.text_or("llama.rope.scaling.type", "none");
  if (scaling != "none")
    file.refuse("llama.rope.scaling.type", fmt::format("\"{}\" is not supported", scaling), "none");
  const int64_t turned = file.integer_or("llama.rope.dimension_count", 1, kMaxSize, head_dim);
  if (turned != head_dim)
    file.refuse("llama.rope.dimension_count", fmt::format("{}", turned),
                fmt::format("{}, the size of a head", head_dim));
}

void read_llama(const Gguf& file, ModelConfig* config) {
  config->kv_heads = file.integer_or("llama.attention.head_count_kv", 1, kMaxSize, config->heads);
  config->head_dim = file.integer_or("llama.attention.key_length", 1, kMaxSize, config->head_dim);
  const int64_t value =
      file.integer_or("llama.attention.value_length", 1, kMaxSize, config->head_dim);
  if (value != config->head_dim)
    file.refuse("llama.attention.value_length", fmt::format("{}", value),
                fmt::format("{}, as key_length", config->head_dim));
  config->norm_eps =
      static_cast<float>(file.number_or("llama.attention.layer_norm_rms_epsilon", 1e-30, 1, 1e-5));
  config->rope_theta = static_cast<float>(file.number_or("llama.rope.freq_base", 1e-3, 1e30, 1e4));
  refuse_rope(file, config->head_dim);
  config->attention_bias = has_tensor(file, "blk.0.attn_q.bias");
  config->mlp_bias = has_tensor(file, "blk.0.ffn_up.bias");
}

void read_gpt2(const Gguf& file, ModelConfig* config) {
  config->norm_eps =
      static_cast<float>(file.number_or("gpt2.attention.layer_norm_epsilon", 1e-30, 1, 1e-5));
  config->attention_bias = config->mlp_bias = config->norm_bias = true;
}

void add_llama(const ModelConfig& config, GgufKeys* keys) {
  const auto u32 = [&](const char* key, int64_t value) {
    keys->emplace_back(key, GgufValue::of_u32(static_cast<uint32_t>(value)));
  };
  u32("llama.attention.head_count_kv", config.kv_heads);
  keys->emplace_back("llama.attention.layer_norm_rms_epsilon", GgufValue::of_f32(config.norm_eps));
  keys->emplace_back("llama.rope.freq_base", GgufValue::of_f32(config.rope_theta));
  u32("llama.rope.dimension_count", config.head_dim);
  u32("llama.attention.key_length", config.head_dim);
  u32("llama.attention.value_length", config.head_dim);
}

}  // namespace

bool has_gguf_form(const ModelConfig& config) {
  const bool is_known =
      config.architecture == Architecture::llama || config.architecture == Architecture::gpt2;
  return is_known && config.rope_scaling == RopeScaling{};
}

GgufKeys gguf_model_keys(const ModelConfig& config, const std::string& name,
                         const std::string& type) {
  const std::string architecture(parts_of(config.architecture).name);
  GgufKeys keys = {{"general.architecture", GgufValue::of_text(architecture)},
                   {"general.type", GgufValue::of_text("model")},
                   {"general.name", GgufValue::of_text(name)},
                   {"general.file_type", GgufValue::of_u32(file_type(type))},
                   {"general.quantization_version", GgufValue::of_u32(kQuantizationVersion)}};
  const auto u32 = [&](const char* key, int64_t value) {
    keys.emplace_back(architecture + key, GgufValue::of_u32(static_cast<uint32_t>(value)));
  };
  u32(".vocab_size", config.vocab);
  u32(".context_length", config.context);
  u32(".embedding_length", config.width);
  u32(".block_count", config.layers);
  u32(".feed_forward_length", config.ffn);
  u32(".attention.head_count", config.heads);
  if (config.architecture == Architecture::llama) {
    add_llama(config, &keys);
  } else {
    keys.emplace_back("gpt2.attention.layer_norm_epsilon", GgufValue::of_f32(config.norm_eps));
  }
  return keys;
}

ModelConfig read_gguf_config(const Gguf& file) {
  const std::string name = file.text("general.architecture");
  const ArchitectureParts* parts = find_architecture(name);
  if (parts == nullptr || !has_gguf_form({.architecture = parts->architecture}))
    file.refuse("general.architecture", fmt::format("\"{}\" is not supported", name),
                "llama or gpt2");
  ModelConfig config{.architecture = parts->architecture};
  const auto size = [&](const char* key) { return file.integer(name + key, 1, kMaxSize); };
  config.context = size(".context_length");
  config.width = size(".embedding_length");
  config.layers = size(".block_count");
  config.ffn = size(".feed_forward_length");
  config.heads = config.kv_heads = size(".attention.head_count");
  config.head_dim = config.width / config.heads;
  const SafetensorsEntry* embedding = file.find("token_embd.weight");
  const int64_t rows =
      embedding != nullptr && embedding->shape.size() == 2 ? embedding->shape[0] : 0;
  config.vocab = file.integer_or(name + ".vocab_size", 1, kMaxSize, rows);
  config.tie_embeddings = !has_tensor(file, "output.weight");
  config.architecture == Architecture::llama ? read_llama(file, &config) : read_gpt2(file, &config);
  validate(config, file.path());
  return config;
}

}  // namespace ng::io
