// The types of quantized folders: layout, numbers, what config.json says, and a weight as their
// tensors. [interop.md 2]
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "io/hf/quantized_layout.h"
#include "io/narrow_form.h"
#include "io/safetensors.h"
#include "nn/parameter.h"

namespace ng {

struct HfType {
  std::string_view name;
  io::WeightLayout layout = io::WeightLayout::plain;
  std::optional<NarrowForm> form;  ///< none: values one by one, of `dtype`
  std::string_view dtype;          ///< of what is not quantized: safetensors' name
  std::string_view torch;          ///< the same in config.json
  std::string_view strategy;       ///< of compressed-tensors
  bool has_block = false;          ///< the user may choose its blocks

  /// A scale of the tensor, which several matrices may share.
  [[nodiscard]] bool has_tensor_scale() const {
    return form == NarrowForm::nvfp4 || form == NarrowForm::fp8_tensor;
  }
};

/// All of them; f32 is what imports write.
[[nodiscard]] const std::vector<HfType>& hf_types();

/// quantization_config of a type that has a form. `block`: of fp8_block and fp8_fine; `wide`:
/// modules of blocks that are not quantized.
[[nodiscard]] OrderedJson quantization_config(const HfType& type, const Block& block,
                                              const std::vector<std::string>& wide);

/// The tensors that stand for "P.weight" (out, in), without data, in the order of their bytes.
[[nodiscard]] std::vector<io::SafetensorsTensor> layout_tensors(const HfType& type,
                                                                const ParameterSpec& spec,
                                                                const Block& block);

/// Their bytes, one tensor after another. `encode_scale`: of NVFP4.
void write_layout(const HfType& type, const NarrowMatrix& matrix, float encode_scale,
                  io::SafetensorsWriter* writer);

}  // namespace ng
