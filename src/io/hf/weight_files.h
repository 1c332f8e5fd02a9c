// The files that a Hugging Face folder keeps its weights in.
#pragma once

#include <map>
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

/// The file of each tensor, by the index of a folder; nothing without one. Throws Error where it is
/// malformed.
[[nodiscard]] std::map<std::string, std::string> hf_weight_map(const std::string& folder);

}  // namespace ng::io
