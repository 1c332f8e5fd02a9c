// The rotary frequencies of a config.json, in the spellings of transformers 4 and 5.
#pragma once

#include "base/json_fwd.h"
#include "model/config.h"

namespace ng {
class JsonObject;
}

namespace ng::io {

/// Sets config's rope_theta and rope_scaling; its context is known. Throws Error naming the key of
/// what is missing, contradictory or not supported.
void read_hf_rope(const JsonObject& json, ModelConfig* config);

/// Adds the keys of both spellings.
void add_hf_rope(const ModelConfig& config, OrderedJson* json);

}  // namespace ng::io
