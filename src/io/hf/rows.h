// A quantized weight as the tensors of a folder.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "io/hf/types.h"
#include "io/safetensors.h"
#include "nn/parameter.h"

namespace ng {

/// The tensors that stand for "P.weight" (out, in), without data, in the order of their bytes.
[[nodiscard]] std::vector<io::SafetensorsTensor> layout_tensors(const HfType& type,
                                                                const ParameterSpec& spec,
                                                                const Block& block);

/// Their bytes, one tensor after another. `encode_scale`: of NVFP4.
void write_layout(const HfType& type, const NarrowMatrix& matrix, float encode_scale,
                  io::SafetensorsWriter* writer);

}  // namespace ng
