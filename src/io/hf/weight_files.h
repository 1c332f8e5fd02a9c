// The files that a Hugging Face folder keeps its weights in.
#pragma once

#include <string>
#include <vector>

namespace ng::io {

struct HfWeightFiles {
  std::string place;  ///< what says so, for errors: the index, or the one file
  std::vector<std::string> paths;
};

/// model.safetensors, or what model.safetensors.index.json names. Throws Error where the index is
/// malformed or a file that it names is missing; the one file is not looked at.
[[nodiscard]] HfWeightFiles hf_weight_files(const std::string& folder);

}  // namespace ng::io
