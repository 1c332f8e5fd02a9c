// GPT-2: learned positions, LayerNorm, fused qkv, GELU. [Radford et al. 2019; transformers' gpt2]
#include <array>

#include "model/architecture.h"
#include "model/parameter_rows.h"

namespace ng {
namespace {

constexpr std::array<std::string_view, 1> kGpt2Projections = {layers::kQkv};
constexpr std::array<std::string_view, 1> kGpt2MlpInputs = {layers::kUp};

std::vector<ParameterSpec> gpt2_parameters(const ModelConfig& c) {
  ParameterRows rows(/*hf_transposed=*/true);
  rows.table(layers::kEmbed, "transformer.wte.weight", c.vocab, c.width);
  rows.table(layers::kPos, "transformer.wpe.weight", c.context, c.width);
  for (int64_t i = 0; i < c.layers; ++i) {
    const auto in = [&](std::string_view part) { return layers::in_block(i, part); };
    const std::string hf = fmt::format("transformer.h.{}.", i);
    rows.norm(in(layers::kNorm1), hf + "ln_1", c.width, c.norm_bias);
    rows.linear({in(layers::kQkv), hf + "attn.c_attn", 3 * c.width, c.width, c.attention_bias,
                 Init::normal});
    rows.linear({in(layers::kAttnOut), hf + "attn.c_proj", c.width, c.width, c.attention_bias,
                 Init::residual_normal});
    rows.norm(in(layers::kNorm2), hf + "ln_2", c.width, c.norm_bias);
    rows.linear({in(layers::kUp), hf + "mlp.c_fc", c.ffn, c.width, c.mlp_bias, Init::normal});
    rows.linear(
        {in(layers::kDown), hf + "mlp.c_proj", c.width, c.ffn, c.mlp_bias, Init::residual_normal});
  }
  rows.norm(layers::kNorm, "transformer.ln_f", c.width, c.norm_bias);
  if (!c.tie_embeddings) rows.table(layers::kHead, "lm_head.weight", c.vocab, c.width);
  return rows.take();
}

}  // namespace

const ArchitectureParts kGpt2 = {.architecture = Architecture::gpt2,
                                 .name = "gpt2",
                                 .hf_class = "GPT2LMHeadModel",
                                 .norm = NormKind::layer,
                                 .learned_positions = true,
                                 .projections = kGpt2Projections,
                                 .mlp_inputs = kGpt2MlpInputs,
                                 .parameters = gpt2_parameters};

}  // namespace ng
