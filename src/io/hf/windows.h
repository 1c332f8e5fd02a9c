// The windows of attention in a config.json.
#pragma once

#include "base/json_fwd.h"
#include "model/config.h"

namespace ng::io {

/// Those that bind within the context of `config`, all of which but its windows is known and valid,
/// by the keys that transformers reads for its architecture. Throws Error naming the key of what
/// contradicts itself or is not supported.
[[nodiscard]] Windows read_hf_windows(const JsonObject& json, const ModelConfig& config);

/// Adds the keys of an architecture that may have windows.
void add_hf_windows(const ModelConfig& config, OrderedJson* json);

}  // namespace ng::io
