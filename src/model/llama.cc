// Llama: RoPE, RMSNorm, SwiGLU, grouped-query attention. [Touvron et al. 2023; transformers' llama]
#include <array>

#include "model/architecture.h"
#include "model/parameter_rows.h"

namespace ng {
namespace {

constexpr std::array<std::string_view, 3> kProjections = {layers::kQ, layers::kK, layers::kV};
constexpr std::array<std::string_view, 2> kMlpInputs = {layers::kGate, layers::kUp};

std::vector<ParameterSpec> parameters(const ModelConfig& c) {
  const int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
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
    rows.linear({in(layers::kAttnOut), attn + "o_proj", c.width, q, ab, Init::residual_normal});
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

}  // namespace

const ArchitectureParts kLlama = {.architecture = Architecture::llama,
                                  .name = "llama",
                                  .norm = NormKind::rms,
                                  .learned_positions = false,
                                  .projections = kProjections,
                                  .mlp_inputs = kMlpInputs,
                                  .parameters = parameters};

}  // namespace ng
