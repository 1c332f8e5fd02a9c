// What a model's files say beside sizes and weights: the tokens that begin, end and fill its texts,
// and how it generates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "io/model_name.h"
#include "tokenizer/special_ids.h"

namespace ng::io {

inline constexpr const char* kBosKey = "bos_token_id";
inline constexpr const char* kEosKey = "eos_token_id";  // one id, or a list: any of them ends
inline constexpr const char* kPadKey = "pad_token_id";

/// Of a folder's config.json, what a model that is written plain has no more: how its weights were
/// quantized, and code that lay beside it.
inline constexpr const char* kLeftBehind[] = {"quantization_config", "compression_config",
                                              "auto_map"};

struct ModelSettings {
  OrderedJson config = OrderedJson::object();  ///< of config.json: all that may go along
  OrderedJson generation = nullptr;            ///< generation_config.json; null: there is none
  std::string place = {};                      ///< what they were read from, for messages
};

/// The generation_config.json of a folder; that of its base where a PEFT folder has none.
[[nodiscard]] std::string generation_path(const ModelName& model);

/// Of a folder, the base of a PEFT folder, or a GGUF file, whose keys become those of config.json.
/// What the tokenizer of a PEFT folder names comes first.
[[nodiscard]] ModelSettings read_model_settings(const ModelName& model);

/// Special tokens that the settings lack, in either file: from the other, else from the tokenizer.
/// Makes a generation_config.json where there is none. `vocab`: of the model.
void add_special_ids(const SpecialIds& ids, int64_t vocab, ModelSettings* settings);

/// The same, of a model whose texts another tokenizer makes: what that names comes first.
void take_special_ids(const SpecialIds& ids, ModelSettings* settings);

/// read_model_settings(), completed by the model's own tokenizer.
[[nodiscard]] ModelSettings whole_model_settings(const ModelName& model, int64_t vocab);

/// The tokens that end what the model generates, none twice: generation_config.json says it, else
/// config.json. Throws Error for what is neither an id nor a list of ids.
[[nodiscard]] std::vector<int32_t> end_tokens(const ModelSettings& settings);

/// An id of config.json; below 0 where it has none, or no number.
[[nodiscard]] int64_t config_id(const ModelSettings& settings, const char* key);

}  // namespace ng::io
