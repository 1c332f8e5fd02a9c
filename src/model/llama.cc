// Llama: RoPE, RMSNorm, SwiGLU, grouped-query attention; and what differs from it in a row alone.
// [Touvron et al. 2023; transformers' llama, mistral, qwen2, qwen3]
#include <array>

#include "model/architecture.h"
#include "model/parameter_rows.h"

namespace ng {
namespace {

constexpr std::array<std::string_view, 3> kLlamaProjections = {layers::kQ, layers::kK, layers::kV};
constexpr std::array<std::string_view, 2> kLlamaMlpInputs = {layers::kGate, layers::kUp};

std::vector<ParameterSpec> llama_parameters(const ModelConfig& c) {
  const int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  const ArchitectureParts& parts = parts_of(c.architecture);
  const bool ab = c.attention_bias, mb = c.mlp_bias;
  ParameterRows rows(/*hf_transposed=*/false);
  rows.table(layers::kEmbed, "model.embed_tokens.weight", c.vocab, c.width);
  for (int64_t i = 0; i < c.layers; ++i) {
    const auto in = [&](std::string_view part) { return layers::in_block(i, part); };
    const std::string hf = fmt::format("model.layers.{}.", i);
    const std::string attn = hf + "self_attn.";
    rows.norm(in(layers::kNorm1), hf + "input_layernorm", c.width, false);
    rows.linear({in(layers::kQ), attn + "q_proj", q, c.width, ab, Init::normal});
    rows.linear({in(layers::kK), attn + "k_proj", kv, c.width, ab, Init::normal});
    rows.linear({in(layers::kV), attn + "v_proj", kv, c.width, ab, Init::normal});
    if (parts.head_norms) {
      rows.norm(in(layers::kQNorm), attn + "q_norm", c.head_dim, false);
      rows.norm(in(layers::kKNorm), attn + "k_norm", c.head_dim, false);
    }
    rows.linear({in(layers::kAttnOut), attn + "o_proj", c.width, q, ab && parts.output_bias,
                 Init::residual_normal});
    rows.norm(in(layers::kNorm2), hf + "post_attention_layernorm", c.width, false);
    rows.linear({in(layers::kGate), hf + "mlp.gate_proj", c.ffn, c.width, mb, Init::normal});
    rows.linear({in(layers::kUp), hf + "mlp.up_proj", c.ffn, c.width, mb, Init::normal});
    rows.linear(
        {in(layers::kDown), hf + "mlp.down_proj", c.width, c.ffn, mb, Init::residual_normal});
  }
  rows.norm(layers::kNorm, "model.norm", c.width, false);
  if (!c.tie_embeddings) rows.table(layers::kHead, "lm_head.weight", c.vocab, c.width);
  return rows.take();
}

constexpr ArchitectureParts llama() {
  return {.architecture = Architecture::llama,
          .name = "llama",
          .hf_class = "LlamaForCausalLM",
          .norm = NormKind::rms,
          .learned_positions = false,
          .projections = kLlamaProjections,
          .mlp_inputs = kLlamaMlpInputs,
          .parameters = llama_parameters};
}

// Windows in all layers, or none. [Jiang et al. 2023]
constexpr ArchitectureParts mistral() {
  ArchitectureParts parts = llama();
  parts.architecture = Architecture::mistral;
  parts.name = "mistral";
  parts.hf_class = "MistralForCausalLM";
  parts.attention_bias = parts.mlp_bias = false;
  parts.windows = WindowLayers::all;
  return parts;
}

// Biases of q, k and v alone. [Yang et al. 2024]
constexpr ArchitectureParts qwen2() {
  ArchitectureParts parts = llama();
  parts.architecture = Architecture::qwen2;
  parts.name = "qwen2";
  parts.hf_class = "Qwen2ForCausalLM";
  parts.output_bias = false;
  parts.attention_bias = true;
  parts.mlp_bias = false;
  parts.windows = WindowLayers::any;
  return parts;
}

// Queries and keys are normalized by head. [Yang et al. 2025]
constexpr ArchitectureParts qwen3() {
  ArchitectureParts parts = llama();
  parts.architecture = Architecture::qwen3;
  parts.name = "qwen3";
  parts.hf_class = "Qwen3ForCausalLM";
  parts.head_norms = true;
  parts.mlp_bias = false;
  parts.windows = WindowLayers::any;
  return parts;
}

}  // namespace

constexpr ArchitectureParts kLlama = llama();
constexpr ArchitectureParts kMistral = mistral();
constexpr ArchitectureParts kQwen2 = qwen2();
constexpr ArchitectureParts kQwen3 = qwen3();

}  // namespace ng
