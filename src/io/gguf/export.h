// A model as a GGUF file, as llama.cpp takes it. [interop.md 1]
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/model_weights.h"

namespace ng {

/// The names of types, as on the command line: f32 f16 bf16 q8_0 mxfp4 nvfp4.
[[nodiscard]] std::vector<std::string> gguf_export_types();

struct GgufExport {
  io::ModelName model;  ///< a folder or a GGUF file
  std::string out;
  std::string name;  ///< general.name
  std::string type;  ///< one of gguf_export_types(), of the blocks' matrices
  /// Exceptions: a pattern of names, GGUF's or Hugging Face's, and a type; the last that matches
  /// counts.
  std::vector<std::pair<std::string, std::string>> keep;
  std::optional<TrainedNumbers> trained;
  Threads threads;
};

/// Writes the file; what the user should know of it. Matrices of blocks take the type, embedding
/// and head BF16 (or the type, where that is F32, F16, BF16 or Q8_0), the rest is F32. Throws Error
/// naming the tensor and its size, or the architecture and a type that works, before anything is
/// written.
std::vector<std::string> export_gguf(const GgufExport& request);

}  // namespace ng
