// Lists the parameters of a model row by row, by the canonical names of their layers; the
// architectures differ only in names and sizes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "recipe/layer_names.h"

namespace ng {

class ParameterRows {
 public:
  /// `hf_transposed`: linear weights are stored (in, out), as GPT-2's Conv1D does.
  explicit ParameterRows(bool hf_transposed) : hf_transposed_(hf_transposed) {}

  struct Linear {
    std::string name;     ///< canonical layer name
    std::string hf_name;  ///< of the module
    int64_t out = 0;
    int64_t in = 0;
    bool bias = false;
    Init init = Init::normal;
  };
  void linear(const Linear& layer);
  /// Gain and, with `bias`, bias of `width` channels.
  void norm(std::string_view name, const std::string& hf_name, int64_t width, bool bias);
  /// Embedding, positions or untied head: one (rows, cols) matrix, never transposed.
  void table(std::string_view name, const std::string& hf_name, int64_t rows, int64_t cols);

  [[nodiscard]] std::vector<ParameterSpec> take() { return std::move(rows_); }

 private:
  void vector(std::string name, const std::string& hf_name, int64_t size, Init init);
  bool hf_transposed_;
  std::vector<ParameterSpec> rows_;
};

}  // namespace ng
