// The models whose traffic and memory FP8-LM's authors published, and how they were laid out over
// ranks.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "model/config.h"

namespace ng {

/// GB of a rank as published, by sequences of 2,048 tokens in a micro-batch. "66.1 to 57.7" is BF16
/// with one beside FP8-LM with four; with one each it is 66.1 to 40.3. [recipes.md §4.2]
struct PublishedMemory {
  double bf16_of_one, fp8_lm_of_one, fp8_lm_of_four;
};

/// A GPT of the paper: vocabulary 51,200, head of its own, context 2,048. [errata-2, 38]
struct PublishedShape {
  std::string_view name;
  ModelConfig config;
  int64_t tensor, pipeline, data;    ///< ranks of each kind of group
  double fp32_bf16_gib, fp8_lm_gib;  ///< sent by a rank in a step, as published
  std::optional<PublishedMemory> memory{};
};
[[nodiscard]] std::span<const PublishedShape> published_shapes();

/// Null where the name is none of theirs.
[[nodiscard]] const PublishedShape* find_published_shape(std::string_view name);

/// Parameters of a rank of the first pipeline stage, which sends the most: it has embedding and
/// positions, and its share of the blocks.
[[nodiscard]] std::vector<ParameterSpec> parameters_of_first_stage(const PublishedShape& shape);

}  // namespace ng
