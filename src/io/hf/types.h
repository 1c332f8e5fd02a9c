// The types of quantized folders: layout, numbers and what config.json says. [interop.md 2]
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "io/hf/quantized_layout.h"
#include "io/narrow_form.h"

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

}  // namespace ng
