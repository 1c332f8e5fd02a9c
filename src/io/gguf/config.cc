// The keys of a model <-> ModelConfig. [interop.md 1.2]
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include "base/error.h"
#include "io/gguf/model.h"
#include "io/gguf/rope.h"
#include "model/architecture.h"

namespace ng::io {
namespace {

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

/// Sizes of every architecture, behind its name.
struct ModelSizeKey {
  const char* key;
  int64_t ModelConfig::*size;
};
constexpr std::array<ModelSizeKey, 5> kModelSizes = {
    {{".context_length", &ModelConfig::context},
     {".embedding_length", &ModelConfig::width},
     {".block_count", &ModelConfig::layers},
     {".feed_forward_length", &ModelConfig::ffn},
     {".attention.head_count", &ModelConfig::heads}}};

bool has_tensor(const Gguf& file, const char* name) { return file.find(name) != nullptr; }

/// llama.cpp's rope has ways of scaling that this program has not.
void refuse_rope(const Gguf& file, const std::string& prefix, int64_t head_dim) {
  const std::string scaling = prefix + ".rope.scaling.type",
                    turned = prefix + ".rope.dimension_count";
  const std::string type = file.text_or(scaling, "linear");
  if (type != "none" && type != "linear")
    file.refuse(scaling, fmt::format("\"{}\" is not supported", type), "none");
  for (const char* name : {".rope.scaling.factor", ".rope.scale_linear"}) {  // the second is older
    const double factor = file.number_or(prefix + name, 0, 1e30, 1);
    if (type == "linear" && factor != 0 && factor != 1)
      file.refuse(prefix + name, fmt::format("{} is not supported", factor),
                  "1, or \"none\" as rope.scaling.type");
  }
  const int64_t count = file.integer_or(turned, 1, kMaxModelSize, head_dim);
  if (count != head_dim)
    file.refuse(turned, fmt::format("{}", count), fmt::format("{}, the size of a head", head_dim));
}

/// Of a Llama and its like. They have no windows in llama.cpp, which reads no
/// .attention.sliding_window of theirs. [llama.cpp src/models/llama.cpp, qwen2.cpp, qwen3.cpp]
void read_llama(const Gguf& file, const std::string& prefix, ModelConfig* config) {
  const auto size_or = [&](const char* key, int64_t otherwise) {
    return file.integer_or(prefix + key, 1, kMaxModelSize, otherwise);
  };
  config->kv_heads = size_or(".attention.head_count_kv", config->heads);
  config->head_dim = size_or(".attention.key_length", config->head_dim);
  const int64_t value = size_or(".attention.value_length", config->head_dim);
  if (value != config->head_dim)
    file.refuse(prefix + ".attention.value_length", fmt::format("{}", value),
                fmt::format("{}, as key_length", config->head_dim));
  config->norm_eps = static_cast<float>(
      file.number_or(prefix + ".attention.layer_norm_rms_epsilon", 1e-30, 1, 1e-5));
  config->rope_theta =
      static_cast<float>(file.number_or(prefix + ".rope.freq_base", 1e-3, 1e30, 1e4));
  refuse_rope(file, prefix, config->head_dim);
  config->attention_bias = has_tensor(file, "blk.0.attn_q.bias");
  config->mlp_bias = has_tensor(file, "blk.0.ffn_up.bias");
  config->rope_scaling = read_gguf_rope(file, *config);
}

void read_gpt2(const Gguf& file, ModelConfig* config) {
  config->norm_eps =
      static_cast<float>(file.number_or("gpt2.attention.layer_norm_epsilon", 1e-30, 1, 1e-5));
  config->attention_bias = config->mlp_bias = config->norm_bias = true;
}

void add_llama(const ModelConfig& config, const std::string& prefix, GgufKeys* keys) {
  const auto u32 = [&](const char* key, int64_t value) {
    keys->emplace_back(prefix + key, GgufValue::of_u32(static_cast<uint32_t>(value)));
  };
  u32(".attention.head_count_kv", config.kv_heads);
  keys->emplace_back(prefix + ".attention.layer_norm_rms_epsilon",
                     GgufValue::of_f32(config.norm_eps));
  keys->emplace_back(prefix + ".rope.freq_base", GgufValue::of_f32(config.rope_theta));
  u32(".rope.dimension_count", config.head_dim);
  u32(".attention.key_length", config.head_dim);
  u32(".attention.value_length", config.head_dim);
}

/// By llama.cpp's name; none where this program has no such architecture.
std::optional<Architecture> architecture_named(std::string_view name) {
  for (const std::string_view own : architecture_names()) {
    const Architecture architecture = find_architecture(own)->architecture;
    if (gguf_architecture(architecture) == name) return architecture;
  }
  return {};
}

}  // namespace

std::string_view gguf_architecture(Architecture architecture) {
  return architecture == Architecture::mistral ? parts_of(Architecture::llama).name
                                               : parts_of(architecture).name;
}

void require_gguf_form(const ModelConfig& config, const std::string& place) {
  const auto refuse = [&](const std::string& problem, const std::string& remedy = "--to hf") {
    throw Error({.place = place,
                 .key = "",
                 .problem = fmt::format("llama.cpp has nothing for {} of a {}", problem,
                                        parts_of(config.architecture).name),
                 .remedy = remedy});
  };
  if (config.windows.any())
    refuse(fmt::format("attention windows ({})", text_of(config.windows)),
           fmt::format("--to hf, or a context of {}, within which the model computes the same",
                       config.windows.size));
  if (config.rope_scaling.original_context > 0 && !has_rope_factors(config.architecture))
    refuse("scaled rotary frequencies");
  if (config.architecture == Architecture::qwen3 && config.attention_bias)
    refuse("the attention's biases");
  if (config.architecture == Architecture::qwen2 && config.heads * config.head_dim != config.width)
    refuse(fmt::format("{} heads of {} beside a width of {}", config.heads, config.head_dim,
                       config.width));
}

bool is_own_gguf(const std::string& path) {
  constexpr std::string_view kFirst[] = {"general.architecture", "general.type", "general.name",
                                         "general.file_type", "general.quantization_version"};
  if (!is_gguf(path)) return false;
  try {
    const Gguf file(path);
    const GgufKeys& keys = file.keys();
    return keys.size() >= std::size(kFirst) &&
           std::equal(std::begin(kFirst), std::end(kFirst), keys.begin(),
                      [](std::string_view name, const auto& key) { return key.first == name; });
  } catch (const Error&) {
    return false;
  }
}

GgufKeys gguf_model_keys(const ModelConfig& config, const std::string& name,
                         const std::string& type) {
  const std::string architecture(gguf_architecture(config.architecture));
  GgufKeys keys = {{"general.architecture", GgufValue::of_text(architecture)},
                   {"general.type", GgufValue::of_text("model")},
                   {"general.name", GgufValue::of_text(name)},
                   {"general.file_type", GgufValue::of_u32(file_type(type))},
                   {"general.quantization_version", GgufValue::of_u32(kQuantizationVersion)}};
  const auto u32 = [&](const char* key, int64_t value) {
    keys.emplace_back(architecture + key, GgufValue::of_u32(static_cast<uint32_t>(value)));
  };
  u32(".vocab_size", config.vocab);
  for (const auto& [key, size] : kModelSizes) u32(key, config.*size);
  if (config.architecture == Architecture::gpt2)
    keys.emplace_back("gpt2.attention.layer_norm_epsilon", GgufValue::of_f32(config.norm_eps));
  else
    add_llama(config, architecture, &keys);
  return keys;
}

ModelConfig read_gguf_config(const Gguf& file) {
  const std::string name = file.text("general.architecture");
  const std::optional<Architecture> architecture = architecture_named(name);
  if (!architecture)
    file.refuse("general.architecture", fmt::format("\"{}\" is not supported", name),
                "llama, qwen2, qwen3 or gpt2");
  ModelConfig config{.architecture = *architecture};
  for (const auto& [key, size] : kModelSizes)
    config.*size = file.integer(name + key, 1, kMaxModelSize);
  config.kv_heads = config.heads;
  config.head_dim = config.width / config.heads;
  const SafetensorsEntry* embedding = file.find("token_embd.weight");
  const int64_t rows =
      embedding != nullptr && embedding->shape.size() == 2 ? embedding->shape[0] : 0;
  config.vocab = file.integer_or(name + ".vocab_size", 1, kMaxModelSize, rows);
  config.tie_embeddings = !has_tensor(file, "output.weight");
  if (config.architecture == Architecture::gpt2)
    read_gpt2(file, &config);
  else
    read_llama(file, name, &config);
  validate(config, file.path());
  return config;
}

}  // namespace ng::io
