#include "io/hf/scale_names.h"

#include <algorithm>
#include <cctype>

namespace ng::io {
namespace {

constexpr std::string_view kPackedEnding = "_packed";

/// Last parts of names. [compressed-tensors quantization/quant_metadata.py,
/// lifecycle/initialize.py; modelopt torch/export/layer_utils.py; transformers
/// integrations/finegrained_fp8.py, fbgemm_fp8.py; vLLM
/// model_executor/layers/quantization/kv_cache.py; ComfyUI comfy/ops.py]
constexpr std::string_view kNoWeights[] = {"input_scale",
                                           "input_zero_point",
                                           "input_global_scale",
                                           "input_scale_ub",
                                           "output_scale",
                                           "output_zero_point",
                                           "output_global_scale",
                                           "activation_scale",
                                           "q_scale",
                                           "q_zero_point",
                                           "q_global_scale",
                                           "k_scale",
                                           "k_zero_point",
                                           "k_global_scale",
                                           "v_scale",
                                           "v_zero_point",
                                           "v_global_scale",
                                           "prob_scale",
                                           "kv_scale",
                                           "kv_cache_scaling_factor",
                                           "activation_scaling_factor",
                                           "scale_input",
                                           "scale_output",
                                           "qscale_act",
                                           "scaled_fp8",
                                           "comfy_quant"};
/// Ends of them: of experts in one tensor, "experts.gate_up_proj_input_scale".
constexpr std::string_view kNoWeightEndings[] = {"_input_scale", "_input_global_scale",
                                                 "_activation_scale"};

/// What is in the names of scales, by method: scales and scaling factors, bitsandbytes, GPTQ and
/// AWQ, asymmetric codes, codebooks, modelopt's own state.
constexpr std::string_view kScaleWords[] = {"scal",   "absmax",     "quant_state", "quant_map",
                                            "qzeros", "zero_point", "g_idx",       "codebook",
                                            "_amax",  "comfy_quant"};
constexpr std::string_view kBitsandbytesScales = "scb";
/// Parameters of models that are called so themselves. [CLIP, Swin, ConvNeXt, PixArt]
constexpr std::string_view kOwnScales[] = {"logit_scale", "layer_scale", "scale_shift_table"};

std::string last_part(std::string_view name) {
  std::string part(name.substr(name.rfind('.') + 1));  // all of it without a dot
  std::ranges::transform(part, part.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return part;
}

}  // namespace

std::string weight_of_codes(std::string_view codes) {
  if (codes.ends_with(kPackedEnding)) codes.remove_suffix(kPackedEnding.size());
  return std::string(codes);
}

std::string_view module_of_tensor(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

bool is_no_weight(std::string_view name) {
  const std::string part = last_part(name);
  return std::ranges::find(kNoWeights, part) != std::end(kNoWeights) ||
         std::ranges::any_of(kNoWeightEndings,
                             [&](std::string_view ending) { return part.ends_with(ending); });
}

bool reads_as_scale(std::string_view name) {
  const std::string part = last_part(name);
  const auto begins = [&](std::string_view own) { return part.starts_with(own); };
  if (std::ranges::any_of(kOwnScales, begins)) return false;
  return part == kBitsandbytesScales ||
         std::ranges::any_of(kScaleWords, [&](std::string_view word) {
           return part.find(word) != std::string::npos;
         });
}

}  // namespace ng::io
