#include "model/config.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/nearest.h"
#include "model/architecture.h"

namespace ng {
namespace {

struct Preset {
  std::string_view name;
  ModelConfig config;
};

/// The same kind of model in other sizes, every head with keys of its own.
ModelConfig sized(ModelConfig config, int64_t layers, int64_t heads, int64_t width, int64_t ffn) {
  config.layers = layers;
  config.heads = config.kv_heads = heads;
  config.width = width;
  config.ffn = ffn;
  return config;
}

// Sizes: GPT-2 from its paper; Llama shapes as in the GaussWS experiments [recipes.md §1.1] and
// char-gpt as nanoGPT's character model. Of its 3B the paper says the size alone: this one has a
// feed-forward of roundup(8d/3, 256), as its others have, and by it takes what their Table 1 says
// of ŵ. Llama 2's 70B is from Meta's own configuration.
const std::vector<Preset>& presets() {
  static const std::vector<Preset> kPresets = [] {
    const ModelConfig gpt2{.architecture = Architecture::gpt2,
                           .vocab = 50257,
                           .layers = 12,
                           .heads = 12,
                           .kv_heads = 12,
                           .head_dim = 64,
                           .width = 768,
                           .ffn = 3072,
                           .context = 1024,
                           .tie_embeddings = true,
                           .attention_bias = true,
                           .mlp_bias = true,
                           .norm_bias = true};
    ModelConfig char_gpt = sized(gpt2, 6, 6, 384, 1536);
    char_gpt.vocab = 65;
    char_gpt.context = 256;
    char_gpt.attention_bias = char_gpt.mlp_bias = char_gpt.norm_bias = false;
    const ModelConfig gpt2_medium = sized(gpt2, 24, 16, 1024, 4096);
    const ModelConfig llama134{.architecture = Architecture::llama,
                               .vocab = 32000,
                               .layers = 12,
                               .heads = 12,
                               .kv_heads = 12,
                               .head_dim = 64,
                               .width = 768,
                               .ffn = 2048,
                               .context = 2048,
                               .tie_embeddings = false};
    ModelConfig llama1b = sized(llama134, 18, 16, 2048, 5632);
    llama1b.head_dim = 128;
    const ModelConfig llama3b = sized(llama1b, 28, 24, 3072, 8192);
    ModelConfig llama70b = sized(llama1b, 80, 64, 8192, 28672);
    llama70b.kv_heads = 8;
    return std::vector<Preset>{{"gpt2-124m", gpt2},    {"gpt2-345m", gpt2_medium},
                               {"char-gpt", char_gpt}, {"llama-134m", llama134},
                               {"llama-1b", llama1b},  {"llama-3b", llama3b},
                               {"llama-70b", llama70b}};
  }();
  return kPresets;
}

void require(bool holds, std::string_view place, std::string key, std::string problem,
             std::string remedy) {
  if (holds) return;
  throw Error({.place = std::string(place),
               .key = std::move(key),
               .problem = std::move(problem),
               .remedy = std::move(remedy)});
}

void require_range(std::string_view place, std::string key, int64_t value, int64_t most) {
  require(value >= 1 && value <= most, place, std::move(key), fmt::format("{}", value),
          fmt::format("a whole number from 1 to {}", most));
}

void require_bias(std::string_view place, const ArchitectureParts& parts, std::string key,
                  bool given, std::optional<bool> wanted) {
  require(!wanted || given == *wanted, place, std::move(key), fmt::format("{}", given),
          fmt::format("{}, as {} always has", wanted.value_or(given), parts.name));
}

void validate_windows(const ModelConfig& c, std::string_view place) {
  const ArchitectureParts& parts = parts_of(c.architecture);
  const bool fits = c.windows.layers.empty() || std::ssize(c.windows.layers) == c.layers;
  NG_CHECK(fits, c.windows.layers.size(), c.layers);
  if (!c.windows.any()) return;
  require(parts.windows != WindowLayers::none, place, "sliding_window", text_of(c.windows),
          fmt::format("none, as {} has no windows: mistral, qwen2 and qwen3 have", parts.name));
  require(
      parts.windows == WindowLayers::any || c.windows.layers.empty(), place, "full_layers",
      fmt::format("a window of {}", text_of(c.windows)),
      fmt::format("all layers, as {} always has it: qwen2 and qwen3 have it in some", parts.name));
}

void validate_rope(const ModelConfig& c, std::string_view place) {
  require(c.head_dim % 2 == 0, place, "head_dim", fmt::format("{}", c.head_dim),
          "an even number (RoPE turns pairs)");
  require(c.rope_theta > 0.0f, place, "rope_theta", fmt::format("{}", c.rope_theta),
          "a positive number");
  const RopeScaling& by = c.rope_scaling;
  require(by.factor >= 1, place, "rope_scaling.factor", fmt::format("{}", by.factor), "at least 1");
  require(by.low_freq_factor < by.high_freq_factor, place, "rope_scaling.high_freq_factor",
          fmt::format("{}", by.high_freq_factor),
          fmt::format("above low_freq_factor ({})", by.low_freq_factor));
}

}  // namespace

void validate(const ModelConfig& c, std::string_view place) {
  constexpr int64_t kMillion = 1000000;
  require_range(place, "vocab", c.vocab, 16 * kMillion);
  require_range(place, "layers", c.layers, 10000);
  require_range(place, "heads", c.heads, 65536);
  require_range(place, "kv_heads", c.kv_heads, 65536);
  require_range(place, "head_dim", c.head_dim, kMaxHeadDim);
  require_range(place, "width", c.width, kMillion);
  require_range(place, "ffn", c.ffn, 8 * kMillion);
  require_range(place, "context", c.context, 16 * kMillion);
  require(c.heads % c.kv_heads == 0, place, "kv_heads", fmt::format("{}", c.kv_heads),
          fmt::format("a divisor of heads ({})", c.heads));
  require(c.norm_eps > 0.0f && c.norm_eps < 1.0f, place, "norm_eps", fmt::format("{}", c.norm_eps),
          "between 0 and 1");
  require(c.init_std >= 0.0f && c.init_std < 10.0f, place, "init_std",
          fmt::format("{}", c.init_std), "between 0 and 10");
  const ArchitectureParts& parts = parts_of(c.architecture);
  require_bias(place, parts, "attention_bias", c.attention_bias, parts.attention_bias);
  require_bias(place, parts, "mlp_bias", c.mlp_bias, parts.mlp_bias);
  validate_windows(c, place);
  if (c.architecture == Architecture::gpt2) {
    require(c.heads * c.head_dim == c.width, place, "heads",
            fmt::format("{} heads of {} do not make width {}", c.heads, c.head_dim, c.width),
            "a divisor of width");
    require(c.kv_heads == c.heads, place, "kv_heads", fmt::format("{}", c.kv_heads),
            "GPT-2 has as many as heads");
    return;
  }
  validate_rope(c, place);
}

void require_batch(const ModelConfig& c, const BatchSize& size, std::string_view place,
                   std::string key) {
  constexpr double kMostValues = 0x1p56;  // bytes are counted in 64 bits
  const double tokens = static_cast<double>(size.sequences) * static_cast<double>(size.length);
  const int64_t of_block = 4 * (c.width + c.heads * c.head_dim + c.ffn);
  const auto of_token = static_cast<double>(c.layers * of_block + c.vocab + size.micros + 1);
  require(tokens * of_token < kMostValues, place, std::move(key),
          fmt::format("{} sequences of {} tokens", size.sequences * size.micros, size.length),
          "a smaller batch or model: no memory holds this step");
}

ModelConfig model_preset(std::string_view name) {
  for (const Preset& preset : presets())
    if (preset.name == name) return preset.config;
  const std::vector<std::string_view> names = model_preset_names();
  throw Error(
      {.key = "model.preset",
       .problem = fmt::format("unknown \"{}\"", name),
       .remedy = fmt::format("{}known: {}", did_you_mean(name, names), fmt::join(names, " "))});
}

std::vector<std::string_view> model_preset_names() {
  std::vector<std::string_view> names;
  for (const Preset& preset : presets()) names.push_back(preset.name);
  return names;
}

}  // namespace ng
