// A model in a GGUF file: what llama.cpp calls its sizes and tensors, and how it lays them out.
// [interop.md 1.2]
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf/gguf.h"
#include "io/hf/folder.h"
#include "io/hf/names.h"

namespace ng::io {

/// A tensor of the file. GPT-2 always has biases: where the model has none, zeros.
struct GgufModelTensor {
  std::string name;  ///< "blk.0.attn_q.weight"
  HfTensor tensor;
  /// > 0: rows of heads of so many, or values of a bias, are permuted: llama.cpp's rope turns pairs
  /// of neighbours.
  int64_t head_rows = 0;

  /// Vectors (n), matrices (out, in) whatever transformers stores.
  [[nodiscard]] std::vector<int64_t> shape() const;
  /// The parameter's row (of a vector: value) that lies in row `row` of the file: of each head of d
  /// rows, row 2i has the parameter's row i, row 2i + 1 its row i + d/2.
  [[nodiscard]] int64_t row_of_parameter(int64_t row) const;
};

/// What llama.cpp calls the architecture: a Mistral is its llama.
[[nodiscard]] std::string_view gguf_architecture(Architecture architecture);

/// Throws Error at `place` for what llama.cpp has nothing for: windows of attention, scaled rotary
/// frequencies of Qwen2 and Qwen3, biases of Qwen3's attention, heads of Qwen2 that are not as wide
/// together as it is.
void require_gguf_form(const ModelConfig& config, const std::string& place);

/// All tensors of parameters that llama.cpp asks for, in the order of parameter_table.
[[nodiscard]] std::vector<GgufModelTensor> gguf_model_tensors(const ModelConfig& config);

/// Whether a file's keys begin as gguf_model_keys() has them: no other program writes them so.
[[nodiscard]] bool is_own_gguf(const std::string& path);

/// The keys of the model, `type` being a type of tensor that most matrices have.
[[nodiscard]] GgufKeys gguf_model_keys(const ModelConfig& config, const std::string& name,
                                       const std::string& type);

/// Throws Error naming file and key for what is missing, out of range or not supported.
[[nodiscard]] ModelConfig read_gguf_config(const Gguf& file);

/// All parameters of parameter_table(config). Throws Error naming file and tensor for anything
/// missing, unknown or of another shape; reading, for what is not finite.
[[nodiscard]] ParameterReader open_gguf_weights(const std::string& path, const ModelConfig& config);

}  // namespace ng::io
