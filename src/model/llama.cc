// Llama: RoPE, RMSNorm, SwiGLU, grouped-query attention. [Touvron et al. 2023; transformers' llama]
#include <array>

#include "model/architecture.h"
#include "model/parameter_rows.h"

namespace ng {
namespace {

constexpr std::array<std::string_view, 3> kProjections = {"attn.q", "attn.k", "attn.v"};
constexpr std::array<std::string_view, 2> kMlpInputs = {"mlp.gate", "mlp.up"};

std::vector<ParameterSpec> parameters(const ModelConfig& c) {
  const int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  const bool ab = c.attention_bias, mb = c.mlp_bias;
  ParameterRows rows(/*hf_transposed=*/false);
  rows.table("embed.weight", "model.embed_tokens.weight", c.vocab, c.width);
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string block = fmt::format("blocks.{}.", i);
    const std::string hf = fmt::format("model.layers.{}.", i);
    const std::string attn = hf + "self_attn.";
    rows.norm(block + "norm1", hf + "input_layernorm", c.width, false);
    rows.linear({block + "attn.q", attn + "q_proj", q, c.width, ab, Init::normal});
    rows.linear({block + "attn.k", attn + "k_proj", kv, c.width, ab, Init::normal});
    rows.linear({block + "attn.v", attn + "v_proj", kv, c.width, ab, Init::normal});
    rows.linear({block + "attn.out", attn + "o_proj", c.width, q, ab, Init::residual_normal});
    rows.norm(block + "norm2", hf + "post_attention_layernorm", c.width, false);
    rows.linear({block + "mlp.gate", hf + "mlp.gate_proj", c.ffn, c.width, mb, Init::normal});
    rows.linear({block + "mlp.up", hf + "mlp.up_proj", c.ffn, c.width, mb, Init::normal});
    rows.linear(
        {block + "mlp.down", hf + "mlp.down_proj", c.width, c.ffn, mb, Init::residual_normal});
  }
  rows.norm("norm", "model.norm", c.width, false);
  if (!c.tie_embeddings) rows.table("head.weight", "lm_head.weight", c.vocab, c.width);
  return rows.take();
}

}  // namespace

const ArchitectureParts kLlama = {.architecture = Architecture::llama,
                                  .name = "llama",
                                  .norm = Norm::Kind::rms,
                                  .learned_positions = false,
                                  .projections = kProjections,
                                  .mlp_inputs = kMlpInputs,
                                  .parameters = parameters};

}  // namespace ng
