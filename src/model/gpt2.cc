// GPT-2: learned positions, LayerNorm, fused qkv, GELU. [Radford et al. 2019; transformers' gpt2]
#include <array>

#include "model/architecture.h"
#include "model/parameter_rows.h"

namespace ng {
namespace {

constexpr std::array<std::string_view, 1> kProjections = {"attn.qkv"};
constexpr std::array<std::string_view, 1> kMlpInputs = {"mlp.up"};

std::vector<ParameterSpec> parameters(const ModelConfig& c) {
  ParameterRows rows(/*hf_transposed=*/true);
  rows.table("embed.weight", "transformer.wte.weight", c.vocab, c.width);
  rows.table("pos.weight", "transformer.wpe.weight", c.context, c.width);
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string block = fmt::format("blocks.{}.", i);
    const std::string hf = fmt::format("transformer.h.{}.", i);
    rows.norm(block + "norm1", hf + "ln_1", c.width, c.norm_bias);
    rows.linear({block + "attn.qkv", hf + "attn.c_attn", 3 * c.width, c.width, c.attention_bias,
                 Init::normal});
    rows.linear({block + "attn.out", hf + "attn.c_proj", c.width, c.width, c.attention_bias,
                 Init::residual_normal});
    rows.norm(block + "norm2", hf + "ln_2", c.width, c.norm_bias);
    rows.linear({block + "mlp.up", hf + "mlp.c_fc", c.ffn, c.width, c.mlp_bias, Init::normal});
    rows.linear(
        {block + "mlp.down", hf + "mlp.c_proj", c.width, c.ffn, c.mlp_bias, Init::residual_normal});
  }
  rows.norm("norm", "transformer.ln_f", c.width, c.norm_bias);
  if (!c.tie_embeddings) rows.table("head.weight", "lm_head.weight", c.vocab, c.width);
  return rows.take();
}

}  // namespace

const ArchitectureParts kGpt2 = {.architecture = Architecture::gpt2,
                                 .name = "gpt2",
                                 .norm = Norm::Kind::layer,
                                 .learned_positions = true,
                                 .projections = kProjections,
                                 .mlp_inputs = kMlpInputs,
                                 .parameters = parameters};

}  // namespace ng
