// What a model is made of, independent of the file it came from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "math/rope_scaling.h"
#include "model/lora.h"
#include "model/windows.h"
#include "nn/parameter.h"

namespace ng {

enum class Architecture : uint8_t { gpt2, llama, mistral, qwen2, qwen3 };

struct ModelConfig {
  Architecture architecture = Architecture::llama;
  int64_t vocab = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;  ///< = heads for GPT-2
  int64_t head_dim = 0;  ///< GPT-2: width / heads
  int64_t width = 0;
  int64_t ffn = 0;
  int64_t context = 0;  ///< longest sequence; GPT-2 has this many learned positions
  bool tie_embeddings = true;
  bool attention_bias = false;
  bool mlp_bias = false;
  bool norm_bias = false;  ///< LayerNorm only
  float norm_eps = 1e-5f;
  float rope_theta = 10000.0f;
  RopeScaling rope_scaling{};
  Windows windows{};
  GeluKind gelu = GeluKind::tanh;
  float init_std = 0.02f;
  Lora lora{};  ///< in training alone: a model folder has none

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

/// What a worker's scratch holds tiles of in attention's backward pass, in BF16.
inline constexpr int64_t kMaxHeadDim = 7168;

/// Throws Error{place, key, ...} where a size is out of range or two contradict each other.
void validate(const ModelConfig& config, std::string_view place);

/// Sequences of `length` tokens computed at once, `micros` times a step.
struct BatchSize {
  int64_t sequences = 0;
  int64_t length = 0;
  int64_t micros = 1;
};

/// Throws Error{place, key, ...} where even the count of a step's values would overflow.
void require_batch(const ModelConfig& config, const BatchSize& size, std::string_view place,
                   std::string key);

/// Architecture and sizes of a preset ("gpt2-124m", "llama-134m", "llama-1b", "char-gpt", ...);
/// throws Error naming the nearest known one.
[[nodiscard]] ModelConfig model_preset(std::string_view name);
[[nodiscard]] std::vector<std::string_view> model_preset_names();

/// All parameters in canonical order; a tied head has no row of its own.
[[nodiscard]] std::vector<ParameterSpec> parameter_table(const ModelConfig& config);

}  // namespace ng
