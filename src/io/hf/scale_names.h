// What tensors are called that lie beside the codes of weights: the tables of their names.
#pragma once

#include <string>
#include <string_view>

namespace ng::io {

/// What the scales of a weight W are called.
struct ScaleNames {
  std::string_view scale;         ///< behind W
  std::string_view factor = {};   ///< behind W: another, of the whole tensor
  std::string_view divisor = {};  ///< the same, by which is divided
};

/// "P.weight" or any other W. [compressed-tensors; modelopt; transformers; this program's
/// checkpoints]
inline constexpr ScaleNames kScaleNames[] = {{"_scale_inv"},
                                             {"_scale", "_scale_2", "_global_scale"},
                                             {"_weight_scale", "_weight_scale_2"},
                                             {".scale", ".tensor_scale"}};
/// In place of "weight" of P.weight. [ComfyUI; Mistral's own files]
inline constexpr std::string_view kScalesOfModule[] = {"scale_weight", "qscale_weight"};

/// Behind W: what is taken off codes before they are multiplied; 0 where it is read.
inline constexpr std::string_view kZeroPoint = "_zero_point";

/// Of the tensor that holds its codes: W or, of compressed-tensors, W_packed.
[[nodiscard]] std::string weight_of_codes(std::string_view codes);

/// "P" of "P.weight"; all but the last part of any other name.
[[nodiscard]] std::string_view module_of_tensor(std::string_view name);

/// Whether a name is one of those that compressed-tensors, modelopt, ComfyUI and others give to
/// scales of activations and of the KV cache, or to marks: nothing that a weight is made of.
[[nodiscard]] bool is_no_weight(std::string_view name);

/// Whether a name reads as that of a scale, or of what else decodes codes, by any method.
[[nodiscard]] bool reads_as_scale(std::string_view name);

}  // namespace ng::io
