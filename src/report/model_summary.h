// What a model or a file of tensors consists of, before any value is read.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/json_fwd.h"
#include "io/safetensors.h"

namespace ng::report {

struct ModelSummary {
  struct Dtype {
    std::string name;
    int64_t tensors = 0, values = 0;
    uint64_t bytes = 0;
  };
  std::string architecture;  ///< model_text() of its config.json or GGUF keys; empty: none is there
  int64_t parameters = 0;    ///< of that configuration
  std::vector<Dtype> dtypes;  ///< by name
  int64_t tensors = 0, values = 0;
  uint64_t bytes = 0;

  void add(const io::SafetensorsEntry& tensor);
};

/// Of the files that words of a user stand for; the architecture is that of the first file's
/// folder.
[[nodiscard]] ModelSummary summary_of(const std::vector<std::string>& files);

/// {"architecture": text or null, "parameters": number or null, "tensors", "values", "bytes",
/// "dtypes": [{"dtype", "tensors", "values", "bytes"}]}
[[nodiscard]] Json json_of(const ModelSummary& summary);
/// Lines, a name and what it is.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> lines_of(
    const ModelSummary& summary);

}  // namespace ng::report
