// A model as a folder in Hugging Face's layout, plain or quantized. [interop.md 2]
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/model_weights.h"

namespace ng {

/// The names of types, as on the command line: bf16 nvfp4 mxfp4 mxfp8 fp8_tensor ... modelopt.
[[nodiscard]] std::vector<std::string> hf_export_types();

struct HfExport {
  io::ModelName model;  ///< a folder or a GGUF file
  std::string out;
  std::string type;  ///< one of hf_export_types(), of the blocks' matrices; or f32, of everything
  /// Rows and columns that share a scale: fp8_block, fp8_fine.
  std::optional<std::pair<int, int>> block;
  bool share_scales = false;  ///< one scale of the tensor for q, k, v, and for gate, up
  std::optional<TrainedNumbers> trained;
  Threads threads;
  uint64_t max_shard_bytes = uint64_t{5} << 30;
};

/// Writes the folder, which appears whole or not at all, the tokenizer's files in it; what the user
/// should know of it. Embedding, head, norms and biases are BF16, and so are, of trained weights,
/// the matrices that the recipe does not quantize: config.json names them. Throws Error naming the
/// tensor and its size, or the architecture and a type that works, before anything is written.
std::vector<std::string> export_hf(const HfExport& request);

}  // namespace ng
