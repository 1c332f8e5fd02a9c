// Parts of a tokenizer.json that this program writes, in the order of keys in which Hugging Face's
// tokenizers does.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/json_fwd.h"

namespace ng {

/// A ByteLevel, as pre-tokenizer, post-processor or decoder.
[[nodiscard]] OrderedJson byte_level_json(bool add_prefix_space, bool trim_offsets, bool use_regex);

/// A Split that cuts what a regular expression matches from the rest.
[[nodiscard]] OrderedJson split_json(std::string_view regex);

/// A special token, as added_tokens lists it: found in the raw text, with nothing around it.
[[nodiscard]] OrderedJson special_token_json(int64_t id, std::string_view content);

/// A model of type BPE, to which "vocab" and "merges" are to be added.
[[nodiscard]] OrderedJson bpe_json(bool ignore_merges);

}  // namespace ng
