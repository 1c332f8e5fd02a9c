// Model folders in Hugging Face's layout: config.json, model.safetensors (or shards with an index),
// generation_config.json, tokenizer files. GPT-2 and Llama. [transformers 4 and 5]
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "model/config.h"
#include "tokenizer/tokenizer.h"

namespace ng {
class FolderWriter;
}

namespace ng::io {

struct ModelSettings;

/// The largest size that a model may name, of any of its dimensions: wide, but every product of two
/// stays far inside int64; validate() is stricter.
inline constexpr int64_t kMaxModelSize = int64_t{1} << 30;

/// Reads a model's config.json with the rope settings in either spelling. Throws Error naming file
/// and key for what is missing, mistyped, out of range, contradictory or not supported.
[[nodiscard]] ModelConfig read_hf_config(const std::string& folder);

/// The same for a parsed config.json; `place` is for error messages.
[[nodiscard]] ModelConfig parse_hf_config(const Json& json, const std::string& place);

/// Throws Error where a tokenizer of `ids` ids could name a token that the folder's model lacks.
void require_vocabulary(const std::string& folder, const ModelConfig& config, int64_t ids);

/// config.json of a model. `dtype` is the weights': "float32", "bfloat16", "float16". GPT-2 without
/// biases gets our own key "bias": false (or "attention_bias", ... where they differ). `settings`:
/// of the model that it was made of, whose special tokens and further keys it has; null: of none.
[[nodiscard]] std::string hf_config_text(const ModelConfig& config, std::string_view dtype,
                                         const ModelSettings* settings = nullptr);

/// Throws what read_hf_weights would about names, shapes and dtypes, without reading a value:
/// before a model is built whose weights are not there. What the user should know: which scales,
/// of activations and of the KV cache, are left out.
std::vector<std::string> check_hf_weights(const std::string& folder, const ModelConfig& config);

/// Values of parameter `index` of parameter_table(config) come and go by rows, as FP32 on the host,
/// wherever they lie and whatever they are stored as.
using ParameterWriter =
    std::function<void(size_t index, int64_t row, std::span<const float> values)>;
using ParameterReader = std::function<void(size_t index, int64_t row, std::span<float> values)>;

/// All parameters of parameter_table(config), from model.safetensors or from the shards of
/// model.safetensors.index.json. F64, F32, BF16 and F16 are read, and what quantization_config says
/// (io/hf/quantized_tensor.h); names may lack the prefix "transformer." or "model."; known buffers,
/// and a tied head equal to the embedding, may be there. Throws Error naming file and tensor for
/// anything missing, unknown or of another shape.
[[nodiscard]] ParameterReader open_hf_weights(const std::string& folder, const ModelConfig& config);

/// The same, given to `write` row by row.
void read_hf_weights(const std::string& folder, const ModelConfig& config,
                     const ParameterWriter& write);

/// All parameters of parameter_table(config) from `read` to `write`.
void copy_parameters(const ModelConfig& config, const ParameterReader& read,
                     const ParameterWriter& write);

struct HfWriteOptions {
  std::string dtype = "F32";  ///< or BF16, F16: rounded to nearest, ties to even
  uint64_t max_shard_bytes = uint64_t{5} << 30;
  const Tokenizer* tokenizer = nullptr;  ///< null: no tokenizer files
  std::string_view chat_template{};      ///< in place of the tokenizer's own; empty: those
  /// Of the model that it was made of, without which special tokens are the tokenizer's.
  const ModelSettings* settings = nullptr;
};

/// The files of the tokenizer, if any, with its chat templates.
void save_tokenizer(const std::string& folder, const HfWriteOptions& options);

/// Throws Error where write_hf_folder would not replace what is there: anything but an empty folder
/// or a model folder (one with a config.json) of this program with no other files in it.
void require_replaceable(const std::string& folder);

/// Makes a model appear at `folder`, where require_replaceable lets it. Throws Error where a chat
/// template that is there would be lost: it is none that came with the model.
void publish_model(FolderWriter& writer, const std::string& folder);

/// Writes a folder that appears whole or not at all, where require_replaceable lets it.
/// Throws Error where a finite weight does not fit the
/// dtype.
void write_hf_folder(const std::string& folder, const ModelConfig& config,
                     const ParameterReader& read, const HfWriteOptions& options = {});

}  // namespace ng::io
